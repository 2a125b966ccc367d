"""How large a JSON Schema is with its references written out, which is what it costs to check.

References make a short schema a huge one: thirty lines that each refer twice to the next are a
billion. And one that refers to itself has no end, so there is none here.
"""

from typing import Any, NamedTuple
from urllib.parse import unquote

MOST_VALUES = 4_096
MOST_PATTERNS = 64
DEEPEST = 128

# How much work they are, by each other.
_VALUE, _UNIQUE_ITEMS, _MULTIPLE_OF = 1, 10, 300
# To see what is left unevaluated, all that stands beside it is tried again: within each other,
# these are three times the work with each level. But not what is about a part of the answer.
_UNEVALUATED = frozenset({"unevaluatedProperties", "unevaluatedItems"})
_TRIED_AGAIN = 3
_OF_PARTS = _UNEVALUATED | frozenset(
    {"additionalProperties", "items", "patternProperties", "prefixItems", "properties"}
)
_DEFINITIONS = frozenset({"$defs", "definitions"})
_DYNAMIC = frozenset({"$dynamicRef", "$recursiveRef"})
_TOO_DEEP = f"nested more than {DEEPEST} levels deep, with what is referred to"
_AS_OFTEN = ", with those that are referred to as often as they are"
_LONGEST_INDEX = 6  # digits


class UnfitSchema(ValueError):
    """This cannot be a schema for answers; the text says why."""


class SchemaSize(NamedTuple):
    """What there is in a schema, as often as it is referred to."""

    values: int = 0
    patterns: int = 0
    levels: int = 0

    def beside(self, other: "SchemaSize") -> "SchemaSize":
        """Both of them."""
        return SchemaSize(
            self.values + other.values,
            self.patterns + other.patterns,
            max(self.levels, other.levels),
        )

    def times(self, often: int) -> "SchemaSize":
        """The same, so often."""
        return SchemaSize(often * self.values, often * self.patterns, self.levels)


_NOTHING = SchemaSize()


def size_of(schema: dict[str, Any]) -> SchemaSize:
    """How large a schema is; UnfitSchema if that is too large, or has no end."""
    return _checked(_Walk(schema).size_of(schema, 0))


def _checked(size: SchemaSize) -> SchemaSize:
    if size.levels > DEEPEST:
        raise UnfitSchema(_TOO_DEEP)
    if size.values > MOST_VALUES:
        raise UnfitSchema(f"must have at most {MOST_VALUES} values{_AS_OFTEN}")
    if size.patterns > MOST_PATTERNS:
        raise UnfitSchema(f"must have at most {MOST_PATTERNS} patterns{_AS_OFTEN}")
    return size


class _Walk:
    """One way through a schema. What keywords mean matters little: each value is counted."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._root = schema
        self._is_draft_4 = "draft-04" in str(schema.get("$schema"))
        self._known: dict[str, SchemaSize] = {}  # by reference
        self._open: set[str] = set()

    def size_of(self, node: Any, depth: int) -> SchemaSize:
        if depth > DEEPEST:
            raise UnfitSchema(_TOO_DEEP)
        inside = _NOTHING
        is_tried_again = isinstance(node, dict) and not _UNEVALUATED.isdisjoint(node)
        if isinstance(node, list):
            for item in node:
                inside = inside.beside(self.size_of(item, depth + 1))
        elif isinstance(node, dict):
            for key, value in node.items():
                if depth == 0 and key in _DEFINITIONS and isinstance(value, dict):
                    for definition in value.values():  # which count where they are referred to
                        _checked(self.size_of(definition, depth + 2))
                    continue
                size = self._keyword(key, value, depth).beside(self.size_of(value, depth + 1))
                times = _TRIED_AGAIN if is_tried_again and key not in _OF_PARTS else 1
                inside = inside.beside(size.times(times))
        return SchemaSize(_VALUE + inside.values, inside.patterns, 1 + inside.levels)

    def _keyword(self, key: str, value: Any, depth: int) -> SchemaSize:
        """What a keyword is beyond its value."""
        if isinstance(value, str):
            if key == "$ref":
                return self._target(value, depth)
            if key in _DYNAMIC:
                raise UnfitSchema(f"{key} is not supported; use $ref")
            if depth and (key == "$id" or (self._is_draft_4 and key == "id")):
                raise UnfitSchema(f"{key} is supported at the root only")
            if key == "pattern":
                return SchemaSize(patterns=1)
        if key == "patternProperties" and isinstance(value, dict):
            return SchemaSize(patterns=len(value))
        if key == "uniqueItems":
            return SchemaSize(_UNIQUE_ITEMS)
        return SchemaSize(_MULTIPLE_OF) if key == "multipleOf" else _NOTHING

    def _target(self, reference: str, depth: int) -> SchemaSize:
        known = self._known.get(reference)
        if known is not None:
            return known
        if reference == "#" or reference in self._open:
            raise UnfitSchema("must not refer to itself")
        if not reference.startswith("#/"):
            raise UnfitSchema(
                '$ref: must refer to a part of the schema itself, as "#/$defs/name"; nothing is'
                " fetched"
            )
        self._open.add(reference)
        size = self.size_of(self._at(reference), depth + 1)
        self._open.discard(reference)
        self._known[reference] = size
        return size

    def _at(self, reference: str) -> Any:
        node: Any = self._root
        for part in unquote(reference).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and _is_index(key) and int(key) < len(node):
                node = node[int(key)]
            else:
                raise UnfitSchema("$ref: there is no such part of the schema")
        return node


def _is_index(key: str) -> bool:
    return key.isascii() and key.isdecimal() and len(key) <= _LONGEST_INDEX
