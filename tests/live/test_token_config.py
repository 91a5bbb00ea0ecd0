"""The table of the token in an overlay file, and shipping by token."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.live.config import load_overlay
from penstock.live.errors import ConfigError
from penstock.live.overlay import Overlay
from penstock.token.settings import PAPER, Plan

BROKER = "[brokers.a]\nport = 1\n"


def load(tmp_path: Path, text: str) -> Overlay:
    path = tmp_path / "overlay.toml"
    path.write_text(f'overlay = "o"\n{text}{BROKER}', encoding="utf-8")
    return load_overlay(path)


def test_no_token_walks_unless_somebody_asks_for_it(tmp_path: Path) -> None:
    overlay = load(tmp_path, '[ship]\nlake = "lake"\n')
    assert overlay.token is None
    assert overlay.settings_for("a").token is None
    assert overlay.ship is not None
    assert overlay.ship.when == "interval"


def test_the_table_says_what_is_asked_of_the_token(tmp_path: Path) -> None:
    overlay = load(tmp_path, '[token]\nop_ms = 200\nmin_ms = 5000\nskip_ms = 20\nvariant = "paper"\n')
    assert overlay.settings_for("a").token == overlay.token == Plan(200, 5_000, 20, PAPER)


def test_an_empty_table_has_the_constants_that_the_number_of_brokers_allows(tmp_path: Path) -> None:
    assert load(tmp_path, "[token]\n").token == Plan()


def test_shipping_by_token_has_a_token_with_its_interval_and_budget(tmp_path: Path) -> None:
    ship = '[ship]\nlake = "lake"\nwhen = "token"\ninterval_ms = 30000\nturn_ms = 500\n'
    overlay = load(tmp_path, ship)
    assert overlay.ship is not None
    assert overlay.ship.when == "token"
    assert overlay.token == Plan(op_ms=500, min_ms=30_000)
    assert load(tmp_path, f"{ship}[token]\nop_ms = 900\n").token == Plan(op_ms=900, min_ms=30_000)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[token]\nvariant = "fast"\n', r"overlay\.toml:3: .*no variant 'fast'"),
        ("[token]\nop_ms = 500\nmin_ms = 100\n", r"overlay\.toml:4: .*must grow in this order"),
        ("[token]\nop_ms = 0\n", r"overlay\.toml:3: "),
        ("[token]\nperiod = 5\n", r"overlay\.toml:3: .*period"),
        ('[ship]\nlake = "lake"\nwhen = "later"\n', r"overlay\.toml:4: .*'later' is neither 'interval' nor 'token'"),
    ],
)
def test_what_cannot_work_is_refused_where_it_stands(text: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load(tmp_path, text)
