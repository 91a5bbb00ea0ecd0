"""The tables of tracking in an overlay file."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.broker.access import Rule
from penstock.live.config import load_overlay
from penstock.live.errors import ConfigError
from penstock.live.overlay import BrokerPlace, Overlay
from penstock.live.toml_table import read_toml
from penstock.live.tracking_config import read_tracking
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.sizing import FilterShape

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


def test_tables_for_all_and_for_one_go_together(tmp_path: Path) -> None:
    own = '[brokers.b.tracking]\nstrategy = "exact"\npersist_ms = 5_000\n'
    overlay = load(tmp_path, f"{BROKERS}{own}[tracking]\nefpp = 0.01\npersist_ms = 2_000\nkeep_filling = false\n")
    general = overlay.settings_for("a").tracking
    assert general == TrackingSettings(efpp=0.01, persist_ms=2_000, keep_filling=False)
    special = overlay.settings_for("b").tracking
    assert special == TrackingSettings(strategy="exact", efpp=0.01, persist_ms=5_000, keep_filling=False)


def test_without_a_table_the_defaults_hold_and_without_a_folder_nothing_is_recorded(tmp_path: Path) -> None:
    assert load(tmp_path, BROKERS).settings_for("a").tracking == TrackingSettings()
    homeless = Overlay("o", {"a": BrokerPlace("a", 1, 1)})
    assert homeless.settings_for("a").tracking.strategy == "null"


def test_a_shape_is_a_table(tmp_path: Path) -> None:
    shape = "shape = { m = 65536, n = 7281, k = 8 }"
    overlay = load(tmp_path, f"{BROKERS}[tracking]\nefpp = 0.1\n{shape}\n")
    assert overlay.settings_for("b").tracking.shape == FilterShape(65_536, 7_281, 8)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[tracking]\nstrategi = 'bloom'", "tracking.strategi: unknown key; did you mean strategy?"),
        ("[tracking]\nefpp = 'low'", "tracking.efpp: must be a number"),
        ("[tracking]\nefpp = 2", "tracking.efpp: efpp 2.0 is not between 0 and 1"),
        ("[tracking]\nstrategy = 'some'", "tracking.strategy: tracking strategy 'some' is not one of null"),
        ("[brokers.b.tracking]\npersist_ms = 0", "brokers.b.tracking.persist_ms: persist_ms 0 is not positive"),
        ("[tracking]\nshape = { m = 9, n = 1, k = 1 }", "tracking.shape: m 9 is not a multiple of 8"),
        ("[tracking]\nshape = { m = 8, n = 1, k = 1, l = 1 }", "tracking.shape.l: unknown key"),
        ("[tracking]\nskew_tolerance_ms = 100_000", "cannot keep to an efpp of 1e-05: change skew_tolerance_ms"),
    ],
)
def test_complaints_name_the_key(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=r"overlay\.toml:\d+: ") as raised:
        load(tmp_path, f"{BROKERS}{text}\n")
    assert complaint in str(raised.value)


def test_a_table_is_read_without_an_overlay(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("[general]\nstaged_max = 0\n[own]\nper_subscriber = true\n", encoding="utf-8")
    root = read_toml(path)
    found = read_tracking(root.table("general"), root.table("own"))
    assert found == TrackingSettings(staged_max=0, per_subscriber=True)


def test_who_may_trace_is_said_by_rules_and_granted_by_none_that_does_not_say_so(tmp_path: Path) -> None:
    rules = "[[access]]\nclients = 'ops-%'\ntrace = true\n[[access]]\nclients = '%'\nsubscribe = true\n"
    access = load(tmp_path, f"{BROKERS}{rules}").access
    assert [access.rule_for(name).trace for name in ("ops-1", "somebody")] == [True, False]
    assert load(tmp_path, BROKERS).access.rule_for("somebody").trace
    assert Rule("%").trace
