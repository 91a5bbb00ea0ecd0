"""The tables of balancing in an overlay file."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.balancing.settings import BalancingSettings
from penstock.live.balancing_config import read_balancing
from penstock.live.config import load_overlay
from penstock.live.errors import ConfigError
from penstock.live.overlay import Overlay
from penstock.live.toml_table import read_toml

BROKERS = """
[brokers.a]
port = 1
[brokers.b]
port = 2
"""


def load(tmp_path: Path, text: str) -> Overlay:
    path = tmp_path / "overlay.toml"
    path.write_text(f'overlay = "o"\n{text}', encoding="utf-8")
    return load_overlay(path)


def test_without_the_table_nobody_balances(tmp_path: Path) -> None:
    assert load(tmp_path, BROKERS).settings_for("a").balancing == BalancingSettings()


def test_tables_for_all_and_for_one_go_together(tmp_path: Path) -> None:
    own = '[brokers.b.balancing]\noutput_bandwidth = 75_000\ncluster = "west"\nrole = "edge"\n'
    overlay = load(tmp_path, f"{BROKERS}{own}[balancing]\nlocal_ratio_trigger = 0.2\n")
    general, special = overlay.settings_for("a").balancing, overlay.settings_for("b").balancing
    assert general == BalancingSettings(is_on=True, local_ratio_trigger=0.2)
    assert special == BalancingSettings(
        is_on=True, local_ratio_trigger=0.2, output_bandwidth=75_000, cluster="west", role="edge"
    )


def test_one_broker_may_stay_out_of_it(tmp_path: Path) -> None:
    overlay = load(tmp_path, f"{BROKERS}[brokers.b.balancing]\nis_on = false\n[balancing]\n")
    assert overlay.settings_for("a").balancing.is_on
    assert not overlay.settings_for("b").balancing.is_on


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[balancing]\nlocal_ratio_triger = 0.1\n", "local_ratio_triger"),
        ("[balancing]\nhigher_overload = 0.5\n", "higher_overload 0.5"),
        ('[balancing]\nrole = "tail"\n', "role is 'tail'"),
        ('[balancing]\nsamples_max = "many"\n', "samples_max"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load(tmp_path, f"{BROKERS}{text}")


def test_tables_can_be_read_by_themselves(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("[balancing]\nsamples_max = 20\n[own]\nsamples_max = 30\n", encoding="utf-8")
    root = read_toml(path)
    assert read_balancing(root.table("balancing"), root.table("own"), is_on=True).samples_max == 30
