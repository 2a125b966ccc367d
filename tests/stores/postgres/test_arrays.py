"""Arrays as PostgreSQL reads them: what we write is what the driver would have written."""

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime import ids
from duetime.stores.postgres import arrays
from duetime.stores.postgres.session import connect

KINDS = {kind.name: kind for kind in arrays._KINDS}
ELEMENTS = {
    "_int2": st.integers(-(2**15), 2**15 - 1),
    "_int4": st.integers(-(2**31), 2**31 - 1),
    "_int8": st.integers(-(2**63), 2**63 - 1),
    "_text": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9),
}


@pytest.mark.parametrize("name", ELEMENTS)
@given(data=st.data())
def test_what_is_written_is_read(name, data):
    """Numbers to the ends of their ranges, texts of any length, and NULLs anywhere."""
    values = data.draw(st.lists(st.none() | ELEMENTS[name]))
    assert arrays.read(KINDS[name], arrays.written(KINDS[name], values)) == values


def test_an_id_is_its_sixteen_bytes():
    """With a NULL between others, or none."""
    one, two = ids.new_id(1, 1), ids.new_id(2, 2)
    for values in ([one, two], [one, None, two]):
        found = arrays.read(KINDS["_uuid"], arrays.written(KINDS["_uuid"], values))
        assert found == [value and value.replace("-", "") for value in values]


@pytest.mark.parametrize("value", ["", "x", "0197734e", "0197734e-7000-7abc-8def-0123456789abcd"])
def test_what_is_no_id_is_refused(value):
    """Also where it is as long together with others as two ids would be."""
    with pytest.raises(ValueError, match=r"not all|hexadecimal"):
        arrays.written(KINDS["_uuid"], [value])


async def test_the_server_reads_them(postgres):
    """Each type, empty, with NULLs, and long; and answers with the same."""
    connection = await connect(postgres._pool._address)
    try:
        for name, values in {
            "int2": [-(2**15), None, 2**15 - 1],
            "int4": [-(2**31), 0, 2**31 - 1],
            "int8": list(range(-(2**40), 2**40, 2**29)),
            "text": ["", None, "a" * 70_000, "ü\U0010ffff", "{", '"', ",", "NULL"],
        }.items():
            for given_ in ([], values):
                asked = f"SELECT $1::{name}[], cardinality($1::{name}[])"
                assert tuple(await connection.fetchrow(asked, given_)) == (given_, len(given_))
        one = ids.new_id(1, 1)
        found = await connection.fetchval(
            "SELECT array_to_string($1::uuid[], ',', '-')", [one, None]
        )
        assert found == f"{one},-"
        with pytest.raises(asyncpg.DataError):
            await connection.fetchval("SELECT $1::int2[]", [2**15])
    finally:
        await connection.close()
