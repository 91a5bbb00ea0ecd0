"""Settings that are said of all brokers, and otherwise of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.live.errors import ConfigError
from penstock.live.overlay import BrokerPlace, Overlay
from penstock.live.settings_tables import read_settings, with_settings
from penstock.live.toml_table import TomlTable, read_toml
from penstock.model.errors import MisuseError


@dataclass(slots=True, frozen=True)
class Some:
    """Settings of every kind."""

    is_on: bool = False
    count: int = 1
    share: float = 0.5
    word: str = "x"
    pair: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.count > 9:
            raise MisuseError(f"count {self.count} is more than 9")
        if self.word == "all":
            raise MisuseError("it cannot be so")


def pair(table: TomlTable, key: str) -> tuple[str, ...]:
    return table.texts(key)


def read(tmp_path: Path, general: str, own: str, **options: Any) -> Some:
    path = tmp_path / "x.toml"
    path.write_text(f"[some]\n{general}\n[brokers.a.some]\n{own}\n", encoding="utf-8")
    root = read_toml(path)
    inner = root.table("brokers").table("a").table("some")
    return read_settings(Some, root.table("some"), inner, readers={"pair": pair}, **options)


def test_what_is_said_of_one_counts_more_and_what_is_said_of_none_is_the_default(tmp_path: Path) -> None:
    found = read(tmp_path, "count = 2\nshare = 1", 'count = 3\nword = "y"\npair = ["p", "q"]')
    assert found == Some(count=3, share=1.0, word="y", pair=("p", "q"))
    assert read(tmp_path, "", "", defaults={"is_on": True}) == Some(is_on=True)
    assert read(tmp_path, "is_on = false", "", defaults={"is_on": True}) == Some()


@pytest.mark.parametrize(
    ("general", "own", "complaint"),
    [
        ("cuont = 2", "", r"x.toml:2: some.cuont: unknown key; did you mean count\?"),
        ("", "cuont = 2", r"x.toml:4: brokers.a.some.cuont: unknown key"),
        ("count = 1.5", "", r"some.count: must be an integer"),
        ("count = 10", "", r"x.toml:2: some.count: count 10 is more than 9"),
        ("count = 2", "count = 10", r"x.toml:4: brokers.a.some.count: count 10 is more than 9"),
        ("", 'word = "all"', r"x.toml:1: some: it cannot be so"),
    ],
)
def test_complaints_name_the_key_where_it_was_set(tmp_path: Path, general: str, own: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read(tmp_path, general, own)


def test_every_broker_has_its_own(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("[data]\n[brokers.a]\n[brokers.b.data]\n", encoding="utf-8")
    root = read_toml(path)
    overlay = Overlay("o", {name: BrokerPlace(name, place, place) for place, name in enumerate("ab", 1)})
    found = with_settings(overlay, root, root.named_tables("brokers"), "data", lambda _, own: Path(str(own.line())))
    assert [str(each.data) for each in found.brokers.values()] == ["2", "3"]
