"""The tables of the token, balancing and tracking in an overlay file; shipping by token."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.balancing.settings import BalancingSettings
from penstock.broker.access import Rule
from penstock.live.config import load_overlay
from penstock.live.errors import ConfigError
from penstock.live.mechanism_config import read_balancing, read_tracking
from penstock.live.overlay import BrokerPlace, Overlay
from penstock.live.toml_table import read_toml
from penstock.token.settings import PAPER, Plan
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.sizing import FilterShape

BROKER = "[brokers.a]\nport = 1\n"
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


def load_alone(tmp_path: Path, text: str) -> Overlay:
    """The overlay of a file with the text before its only broker."""
    return load(tmp_path, f"{text}{BROKER}")


# The token.


def test_no_token_walks_unless_somebody_asks_for_it(tmp_path: Path) -> None:
    overlay = load_alone(tmp_path, '[ship]\nlake = "lake"\n')
    assert overlay.token is None
    assert overlay.settings_for("a").token is None
    assert overlay.ship is not None
    assert overlay.ship.when == "interval"


def test_the_table_says_what_is_asked_of_the_token(tmp_path: Path) -> None:
    overlay = load_alone(tmp_path, '[token]\nop_ms = 200\nmin_ms = 5000\nskip_ms = 20\nvariant = "paper"\n')
    assert overlay.settings_for("a").token == overlay.token == Plan(200, 5_000, 20, PAPER)


def test_an_empty_table_has_the_constants_that_the_number_of_brokers_allows(tmp_path: Path) -> None:
    assert load_alone(tmp_path, "[token]\n").token == Plan()


def test_shipping_by_token_has_a_token_with_its_interval_and_budget(tmp_path: Path) -> None:
    ship = '[ship]\nlake = "lake"\nwhen = "token"\ninterval_ms = 30000\nturn_ms = 500\n'
    overlay = load_alone(tmp_path, ship)
    assert overlay.ship is not None
    assert overlay.ship.when == "token"
    assert overlay.token == Plan(op_ms=500, min_ms=30_000)
    assert load_alone(tmp_path, f"{ship}[token]\nop_ms = 900\n").token == Plan(op_ms=900, min_ms=30_000)


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
def test_token_settings_that_cannot_work_are_refused_where_they_stand(
    text: str, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_alone(tmp_path, text)


# Balancing.


def test_without_the_table_nobody_balances(tmp_path: Path) -> None:
    assert load(tmp_path, BROKERS).settings_for("a").balancing == BalancingSettings()


def test_balancing_tables_for_all_and_for_one_go_together(tmp_path: Path) -> None:
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
def test_what_is_wrong_with_balancing_is_said_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load(tmp_path, f"{BROKERS}{text}")


def test_balancing_tables_can_be_read_by_themselves(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("[balancing]\nsamples_max = 20\n[own]\nsamples_max = 30\n", encoding="utf-8")
    root = read_toml(path)
    assert read_balancing(root.table("balancing"), root.table("own"), is_on=True).samples_max == 30


# Tracking.


def test_tracking_tables_for_all_and_for_one_go_together(tmp_path: Path) -> None:
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
def test_complaints_about_tracking_name_the_key(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=r"overlay\.toml:\d+: ") as raised:
        load(tmp_path, f"{BROKERS}{text}\n")
    assert complaint in str(raised.value)


def test_a_tracking_table_is_read_without_an_overlay(tmp_path: Path) -> None:
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
