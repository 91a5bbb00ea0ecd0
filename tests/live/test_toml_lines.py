"""Lines of keys in TOML files."""

from __future__ import annotations

import pytest

from penstock.live.toml_lines import Place, TomlLines

TEXT = """\
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
    assert TomlLines(TEXT).find(place) == line


def test_what_is_no_toml_does_no_harm() -> None:
    assert TomlLines("[[[\n= 3\n[a b]\nx = ").find(("x",)) == 4


def test_a_key_of_thousands_of_names_is_not_looked_into() -> None:
    lines = TomlLines("a." * 5_000 + "b = 1\nc = 2")
    assert lines.find(("a", "a")) == 1
    assert lines.find(("c",)) == 2
