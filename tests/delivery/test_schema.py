"""Schemas for answers: which are taken, what they say of an answer, and that none takes long."""

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duetime.delivery import schema
from duetime.delivery.schema import LONGEST_SCHEMA, compiled
from duetime.delivery.schema_size import DEEPEST, MOST_PATTERNS, UnfitSchema, size_of

ORDER = {
    "type": "object",
    "required": ["ok", "items"],
    "additionalProperties": False,
    "properties": {
        "ok": {"const": True},
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
        "by name": {"additionalProperties": {"properties": {"age": {"maximum": 150}}}},
        "a/b~c": {"type": "string", "pattern": "^[a-z]+$"},
        "no": False,
    },
    "$defs": {"item": {"anyOf": [{"type": "string"}, {"minimum": 5}]}},
}
MISMATCH = "the answer does not match response_schema: "


def check(schema: Any, body: str | bytes) -> str | None:
    content = body.encode() if isinstance(body, str) else body
    return compiled(json.dumps(schema))(content)


def refusal(schema: Any) -> str:
    with pytest.raises(UnfitSchema) as caught:
        compiled(json.dumps(schema))
    return str(caught.value)


@pytest.mark.parametrize(
    "body",
    ['{"ok": true, "items": []}', ' {"items":["a", 7],"ok":true}\n', '{"ok":true,"items":[1e400]}'],
)
def test_an_answer_that_matches(body: str):
    """Has nothing wrong with it."""
    assert check(ORDER, body) is None


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("{}", "required 'ok' fails at its root"),
        ('{"ok": true}', "required 'items' fails at its root"),
        ('{"ok": "s3cret", "items": []}', "const fails at /ok"),
        ('{"ok": true, "items": ["a", 3]}', "anyOf fails at /items/1"),
        ('{"ok": true, "items": "s3cret"}', "type fails at /items"),
        ('{"ok": true, "items": [], "s3cret": 1}', "additionalProperties fails at its root"),
        (
            '{"ok":true,"items":[],"by name":{"s3cret":{"age":151}}}',
            "maximum fails at /by name/*/age",
        ),
        ('{"ok":true,"items":[],"a/b~c":"S3CRET"}', "pattern fails at /a~1b~0c"),
        ('{"ok":true,"items":[],"no":"s3cret"}', "false fails at /no"),
        ('["s3cret"]', "type fails at its root"),
        ("null", "type fails at its root"),
        ("", "it is empty"),
        (" ", "it is not valid JSON"),
        ("s3cret", "it is not valid JSON"),
        ('{"ok": true, "items": []', "it is not valid JSON"),
        ('{"ok": true, "items": []} s3cret', "it is not valid JSON"),
        ("NaN", "it is not valid JSON"),
        ('"\\ud800"', "it is not valid JSON"),
        (b'"\xff"', "it is not valid JSON"),
        (b'\xef\xbb\xbf{"ok":true}', "it is not valid JSON"),
        ("[" * 5_000, "it is not valid JSON"),
        ("1" * 5_000, "it is not valid JSON"),
    ],
)
def test_an_answer_that_does_not(body: str | bytes, problem: str):
    """It is told where and by which keyword, and nothing of what the receiver has said."""
    assert check(ORDER, body) == MISMATCH + problem


def test_a_long_way_into_an_answer_is_shortened():
    """Errors stay sentences."""
    deep: Any = {"type": "string"}
    for _ in range(20):
        deep = {"properties": {"long name of a property": deep}}
    body: Any = 1
    for _ in range(20):
        body = {"long name of a property": body}
    told = check(deep, json.dumps(body))
    assert told is not None
    assert told.endswith("...")
    assert len(told) < 300


@pytest.mark.parametrize(
    ("draft", "is_known"),
    [
        ("https://json-schema.org/draft/2020-12/schema", True),
        ("https://json-schema.org/draft/2019-09/schema", True),
        ("http://json-schema.org/draft-07/schema#", True),
        ("http://json-schema.org/draft-06/schema#", True),
        ("http://json-schema.org/draft-04/schema#", True),
        ("http://json-schema.org/schema#", False),
        ("https://example.com/schema", False),
        (7, False),
    ],
)
def test_drafts(draft: object, *, is_known: bool):
    """By name, else the newest; those that would have to be fetched are not known."""
    if is_known:
        assert check({"$schema": draft, "type": "null"}, "1") is not None
    else:
        assert refusal({"$schema": draft}).startswith("$schema: must name draft 2020-12,")


def test_the_usual_draft_is_the_newest():
    """PrefixItems is of 2020-12; before, items said that."""
    assert check({"prefixItems": [{"type": "null"}]}, "[1]") is not None
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [{"type": "null"}]}
    assert check(old, "[1]") is None


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "objekt"}, "not a valid JSON Schema: anyOf fails at /type"),
        (
            {"items": {"minLength": -1}},
            "not a valid JSON Schema: minimum fails at /items/minLength",
        ),
        ({"required": "ok"}, "not a valid JSON Schema: type fails at /required"),
        ({"pattern": "("}, "/pattern: must be a regular expression without look-around"),
        ({"pattern": "(?=a)b"}, "/pattern: must be a regular expression without look-around"),
        ({"pattern": r"(a)\1"}, "/pattern: must be a regular expression without look-around"),
        ({"pattern": "[ab]{5000}"}, "/pattern: must be a regular expression without look-around"),
        ({"patternProperties": {"(": {}}}, "/patternProperties/(: must be a regular expression"),
        ([], "must be an object"),
        (True, "must be an object"),
        ({"$comment": "x" * LONGEST_SCHEMA}, f"must be at most {LONGEST_SCHEMA} bytes"),
        ({"$dynamicRef": "#a"}, "$dynamicRef is not supported; use $ref"),
        ({"items": {"$recursiveRef": "#"}}, "$recursiveRef is not supported; use $ref"),
        ({"items": {"$id": "x"}}, "$id is supported at the root only"),
        ({"$ref": "#/$defs/none"}, "$ref: there is no such part of the schema"),
        ({"$ref": "#/type/9", "type": ["null"]}, "$ref: there is no such part of the schema"),
        ({"$ref": "#"}, "must not refer to itself"),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, "must not refer to itself"),
        ({"$defs": {"a": {"items": {"$ref": "#/%24defs/a"}}}}, "must not refer to itself"),
        ({"not": {"$ref": "#/if"}, "if": {"$ref": "#/not"}}, "must not refer to itself"),
        ({"x": [1] * 5000}, "must have at most 4096 values"),
        ({"allOf": [{"pattern": "a"}] * (MOST_PATTERNS + 1)}, "must have at most 64 patterns"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_schema_for_answers(schema: Any, problem: str):
    """Is told in words that say what to change."""
    assert refusal(schema).startswith(problem)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port at which somebody would notice that they are asked."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_nothing_is_fetched_from_others(scheme: str, listener: socket.socket):
    """Neither by what looks at references here, nor by the library if that were not there."""
    url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/schema.json"
    for unfit in ({"$ref": url}, {"$defs": {"a": {"items": {"$ref": url}}}}):
        assert "nothing is fetched" in refusal(unfit)
        with pytest.raises(UnfitSchema):
            schema._validator(unfit)
    for unfit in ({"$schema": url}, {"$id": url, "$ref": "other.json"}):
        refusal(unfit)
        with pytest.raises(UnfitSchema):
            schema._validator(unfit)
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_nothing_is_read_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """By whatever way they are named."""
    (tmp_path / "schema.json").write_text('{"type": "null"}')
    monkeypatch.chdir(tmp_path)
    for reference in (f"file://{tmp_path}/schema.json", "schema.json", "./schema.json", "//schema"):
        assert "nothing is fetched" in refusal({"$ref": reference})
        with pytest.raises(UnfitSchema):
            schema._validator({"$ref": reference})


def test_formats_are_not_checked():
    """To see whether a text is a regular expression would take as long as the receiver likes."""
    for draft in ("http://json-schema.org/draft-07/schema#", None):
        named = {} if draft is None else {"$schema": draft}
        assert check({**named, "format": "regex"}, '"("') is None


def doubling(levels: int) -> dict[str, Any]:
    """A schema of a few lines that is huge when its references are written out."""
    definitions: dict[str, Any] = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": {"type": "string"}}}


def test_references_count_as_often_as_they_are_followed():
    """So that a short schema is not the work of a thousand years."""
    assert check(doubling(8), '"a"') is None
    assert refusal(doubling(11)).startswith("must have at most 4096 values")
    assert refusal(doubling(30)).startswith("must have at most 4096 values")
    unused = doubling(30)
    del unused["$ref"]
    assert refusal(unused).startswith("must have at most 4096 values")


def test_references_count_as_deep_as_they_lead():
    """Also where their ends were seen before."""
    chain = {f"d{level}": {"not": {"$ref": f"#/$defs/d{level - 1}"}} for level in range(1, 200)}
    backwards = {"$defs": {"d0": {}, **chain}, "$ref": "#/$defs/d199"}
    assert refusal(backwards).startswith(f"nested more than {DEEPEST} levels deep")


@pytest.mark.parametrize("way", ["allOf", "anyOf", "oneOf"])
def test_unevaluated_within_each_other_count_as_often_as_they_are_tried(way: str):
    """Each level is tried three times: twenty of them would take seconds over a short answer."""
    levels: Any = {"properties": {"z": True}}
    for level in range(20):
        other = {"properties": {f"p{level}": True}}
        levels = {"unevaluatedProperties": False, way: [levels, other]}
    assert "at most 4096 values" in refusal(levels)


def test_closed_objects_within_each_other_are_tried_once():
    """To see what is left in one, those inside it are not asked again."""
    closed: Any = {"type": "string"}
    for _ in range(40):
        closed = {"properties": {"a": closed}, "unevaluatedProperties": False}
    assert size_of(closed).values < 200
    assert check(closed, '{"a": {"b": 1}}') == f"{MISMATCH}unevaluatedProperties fails at /a"


def test_definitions_count_where_they_are_used():
    """A library of definitions is no larger than what is used of it."""
    library = {f"d{number}": {"type": "string"} for number in range(100)}
    one = size_of({"$ref": "#/$defs/d0", "$defs": library})
    assert one.values < 10
    assert size_of({"properties": {"$defs": library}}).values > 200  # that is a property's name


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        (
            {"items": {"not": {"anyOf": [{"const": n} for n in range(2, 100)]}}},
            b"[" + b"1," * 9000 + b"1]",
        ),
        ({"items": {"multipleOf": 1e-300}}, b"[" + b"1.7e300," * 5000 + b"1]"),
        ({"allOf": [{"pattern": "a[ab]{40}[cd]"}] * 20}, b'"' + b"ab" * 20_000 + b'"'),
        ({"anyOf": [{"minItems": 10**6}] * 100}, b"[" + b"1," * 9000 + b"1]"),
    ],
    ids=["values", "fractions", "patterns", "branches"],
)
def test_an_answer_that_would_take_too_long(schema: Any, body: bytes):
    """Is not looked at; a short one is."""
    assert check(schema, body) == MISMATCH + "it is too large to be checked by it"
    assert "too large" not in (check(schema, body[:1] + b'"' if body[:1] == b'"' else b"[]") or "")


def test_a_usual_schema_takes_long_answers():
    """With nothing costly in it, all of the 64 KiB that are read."""
    row = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
    body = json.dumps([{"id": number, "text": "x" * 100} for number in range(500)])
    assert 60_000 < len(body) < 65_536
    assert check({"type": "array", "items": row}, body) is None


def test_a_schema_is_compiled_once():
    """However many answers it is held against."""
    text = json.dumps(ORDER)
    assert compiled(text) is compiled(text)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch):
    """It is told what to install."""
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    compiled.cache_clear()
    assert refusal({}) == "needs a package that is not installed: pip install 'duetime[schema]'"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=15,
)
_KEYWORDS = st.sampled_from(
    ["type", "items", "properties", "required", "pattern", "enum", "const", "not", "anyOf", "if"]
) | st.sampled_from(["$ref", "$id", "$schema", "$defs", "then", "multipleOf", "uniqueItems"])
_SCHEMAS = st.dictionaries(
    _KEYWORDS,
    _JSON | st.sampled_from(["#", "#/$defs/a", "#/items", "string", "http://a.example/"]),
    max_size=5,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(unsure=_SCHEMAS | _JSON, body=st.binary(max_size=30) | _JSON.map(json.dumps).map(str.encode))
def test_whatever_is_set_and_whatever_comes(unsure: Any, body: bytes):
    """A schema is taken or refused in words, and an answer matches or not: nothing is raised."""
    try:
        problem = compiled(json.dumps(unsure))(body)
    except UnfitSchema as error:
        assert 0 < len(str(error)) < 400  # noqa: PT017 - either is fine
    else:
        assert problem is None or problem.startswith(MISMATCH)
