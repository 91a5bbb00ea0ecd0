"""The tables of the lake: declared once, found by name, and their partition values safe as names of folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import MisuseError
from penstock.model.lake_tables import (
    PUBLICATIONS,
    SHIPPED_TABLES,
    TABLES,
    escaped_value,
    find_table,
    partition_path,
    unescaped_value,
)


def test_tables_have_names_of_their_own_and_no_column_twice() -> None:
    assert len({table.name for table in TABLES}) == len(TABLES)
    for table in TABLES:
        names = [column.name for column in (*table.columns, *table.partitions)]
        assert len(set(names)) == len(names)
        assert table.version >= 1
        assert all(column.help for column in table.columns)


def test_every_file_says_what_it_is() -> None:
    assert PUBLICATIONS.file_metadata() == {"penstock.table": "publications", "penstock.schema_version": "1"}


def test_a_table_is_found_by_name_or_the_names_are_told() -> None:
    assert find_table("publications") is PUBLICATIONS
    with pytest.raises(MisuseError, match="no table 'publication' in the lake; known are publications"):
        find_table("publication")


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_value_survives_as_the_name_of_a_folder(value: str) -> None:
    escaped = escaped_value(value)
    assert unescaped_value(escaped) == value
    assert not set(escaped) & set('/\\:*?"[]{}^#=\x00\n')


@pytest.mark.parametrize(("value", "escaped"), [("pb1.a", "pb1.a"), ("50%", "50%25"), ("a=b", "a%3Db"), ("é ü", "é ü")])
def test_escapes_are_those_of_hive(value: str, escaped: str) -> None:
    assert escaped_value(value) == escaped
    assert partition_path(PUBLICATIONS, {"date": "2026-11-15", "pubend": value}) == f"date=2026-11-15/pubend={escaped}"


def test_every_table_and_column_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "lake.md").read_text(encoding="utf-8")
    for table in SHIPPED_TABLES:
        _, heading, rest = text.partition(f"### `{table.name}` (version {table.version})\n")
        assert heading, table.name
        section = rest.partition("###")[0]
        for column in (*table.columns[2:], *table.partitions):
            assert f"| `{column.name}` |" in section, f"{table.name}.{column.name}"
            assert column.help in section, f"{table.name}.{column.name}"
