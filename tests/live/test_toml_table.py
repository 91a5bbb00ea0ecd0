"""Typed questions to TOML files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.live.errors import ConfigError
from penstock.live.toml_table import Place, TomlLines, TomlTable, read_toml

TEXT = """\
name = "x"
empty = ""
number = 5
truth = true
words = ["a", "b"]
mixed = ["a", 1]
[table]
inner = 1
[[rows]]
value = 1
[[rows]]
value = 2
fraction = 2.25
day = 2026-01-02
hour = 03:04:05
"""


@pytest.fixture
def table(tmp_path: Path) -> TomlTable:
    path = tmp_path / "x.toml"
    path.write_text(TEXT, encoding="utf-8")
    return read_toml(path)


def test_values_come_with_their_types(table: TomlTable) -> None:
    assert table.text("name") == "x"
    assert table.text("absent", "default") == "default"
    assert table.integer("number") == 5
    assert [table.number(key, 0.5) for key in ("number", "absent")] == [5.0, 0.5]
    assert table.tables("rows")[1].number("fraction", 0.5) == 2.25
    assert table.flag("truth", default=False)
    assert table.texts("words") == ("a", "b")
    assert table.texts("absent") == ()
    assert table.text_or_flag("truth", default=False) is True
    assert table.text_or_flag("name", default=False) == "x"
    assert table.table("table").integer("inner") == 1
    assert [row.integer("value") for row in table.tables("rows")] == [1, 2]
    assert "name" in table
    assert "absent" not in table
    assert table.table("table").line() == 7
    assert table.table("table").line("inner") == 8


@pytest.mark.parametrize(
    ("ask", "complaint"),
    [
        (lambda table: table.text("absent"), "x.toml:1: absent: is missing; it must be a string"),
        (lambda table: table.text("number"), "x.toml:3: number: must be a string, not an integer (5)"),
        (lambda table: table.text("empty"), "x.toml:2: empty: must not be empty"),
        (lambda table: table.integer("truth"), "x.toml:4: truth: must be an integer, not true or false (True)"),
        (lambda table: table.integer("number", low=6, high=9), "x.toml:3: number: 5 is not in 6 .. 9"),
        (lambda table: table.number("truth", 1), "x.toml:4: truth: must be a number, not true or false (True)"),
        (lambda table: table.texts("mixed"), "x.toml:6: mixed: must be an array of strings, but has an integer (1)"),
        (lambda table: table.texts("name"), "name: must be an array, not a string ('x')"),
        (lambda table: table.table("words"), "words: must be a table, not an array"),
        (lambda table: table.tables("words"), "must be an array of tables ([[words]]), but has a string ('a')"),
        (lambda table: table.text_or_flag("number", default=True), "number: must be a string, true or false"),
        (lambda table: table.tables("rows")[1].text("day"), "day: must be a string, not a date (2026-01-02)"),
        (lambda table: table.tables("rows")[1].text("hour"), "hour: must be a string, not a time (03:04:05)"),
        (lambda table: table.tables("rows")[1].text("value"), "x.toml:12: rows[2].value: must be a string"),
        (lambda table: table.table("table").refuse_others(), "x.toml:8: table.inner: unknown key"),
    ],
)
def test_what_is_wrong_is_said_with_file_line_and_key(
    table: TomlTable, ask: Callable[[TomlTable], object], complaint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        ask(table)
    assert complaint in str(caught.value)


def test_a_long_value_is_quoted_in_part(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f'number = "{"x" * 100_000}"', encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_toml(path).integer("number")
    assert "x.toml:1: number: must be an integer, not a string ('xxx" in str(caught.value)
    assert len(str(caught.value)) < 3_000


def test_a_misspelt_key_is_corrected(table: TomlTable) -> None:
    inner = table.table("table")
    inner.integer("innner", 0)
    with pytest.raises(ConfigError, match=r"unknown key; did you mean innner\?"):
        inner.refuse_others()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"a = 1\nb = ", r"x\.toml:2: not TOML"),
        (b"a = 1\na = 2\n\n", r"x\.toml:2: not TOML: Cannot overwrite a value"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"a = " + b"[" * 5_000, r"x\.toml: arrays or tables are nested too deeply"),
        (b"a = " + b"1" * 5_000, r"x\.toml: a number has too many digits"),
    ],
)
def test_a_file_that_is_no_toml_is_refused(content: bytes, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=complaint):
        read_toml(path)


def test_a_number_that_no_fraction_can_hold_and_a_text_that_no_path_can_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f'huge = {10**400}\nvoid = "a\\u0000b"\n', encoding="utf-8")
    table = read_toml(path)
    with pytest.raises(ConfigError, match=r"x\.toml:1: huge: has too many digits"):
        table.number("huge", 1)
    with pytest.raises(ConfigError, match=r"x\.toml:2: void: must not have a character NUL"):
        table.text("void")


@pytest.mark.parametrize("path", ["/dev/zero", "/dev"])
def test_what_is_no_file_is_not_read(path: str) -> None:
    with pytest.raises(ConfigError, match=f"{path}: not a regular file"):
        read_toml(Path(path))


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml: cannot be read: No such file"):
        read_toml(tmp_path / "absent.toml")


PLACES = """\
overlay = "demo"

[security.tls]   # a comment
ca = "x"
[brokers.pb1]
port = 7001
"quoted.key" = 1
pubends = [
  "a",
]
[brokers . "pb 2"]
host.name = 3
[[links]]
between = ["a", "b"]
[[links]]

between = ["c", "d"]
[links.more]
key = 1
inline = { deep = 1 }
"""


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("overlay",), 1),
        (("security",), 3),
        (("security", "tls"), 3),
        (("security", "tls", "ca"), 4),
        (("brokers", "pb1", "port"), 6),
        (("brokers", "pb1", "quoted.key"), 7),
        (("brokers", "pb1", "pubends"), 8),
        (("brokers", "pb 2"), 11),
        (("brokers", "pb 2", "host", "name"), 12),
        (("links", 0), 13),
        (("links", 0, "between"), 14),
        (("links", 1, "between"), 17),
        (("links", 1, "more", "key"), 19),
        (("links", 1, "more", "inline", "deep"), 20),
        (("brokers", "pb1", "absent"), 5),
        (("absent",), 1),
        ((), 1),
    ],
)
def test_a_place_is_found_or_what_contains_it(place: Place, line: int) -> None:
    assert TomlLines(PLACES).find(place) == line


def test_what_is_no_toml_does_no_harm() -> None:
    assert TomlLines("[[[\n= 3\n[a b]\nx = ").find(("x",)) == 4


def test_a_key_of_thousands_of_names_is_not_looked_into() -> None:
    lines = TomlLines("a." * 5_000 + "b = 1\nc = 2")
    assert lines.find(("a", "a")) == 1
    assert lines.find(("c",)) == 2
