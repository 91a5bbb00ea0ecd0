"""Parameters of congestion control: in the file, changed at run time, and back to the file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from live.support import lone, run
from penstock.congestion import CongestionSettings
from penstock.live.config import load_overlay
from penstock.live.errors import ConfigError
from penstock.live.node import BrokerNode
from penstock.live.overlay import Overlay
from penstock.live.tuning import Tuning, tune, tuned


def test_a_tuning_tells_what_is_different_and_lists_all() -> None:
    tuning = Tuning(CongestionSettings(), CongestionSettings(sample_ms=1500, sdcc=False))
    assert tuning
    usual = CongestionSettings().sample_ms
    assert tuning.lines() == ["sdcc True to False", f"sample_ms {usual} to 1500"]
    told = tuning.as_dict()
    assert told["changed"] == {"sdcc": (True, False), "sample_ms": (usual, 1500)}
    listed = {each["name"]: each for each in told["parameters"]}
    sample = listed["sample_ms"]
    assert (sample["value"], sample["default"], sample["unit"]) == (1500, usual, "ms")
    assert not Tuning(CongestionSettings(), CongestionSettings())


def test_one_broker_of_an_overlay_is_tuned_and_what_was_tuned_before_stays() -> None:
    before = lone()
    once, tuning = tuned(before, "b1", {"sample_ms": "1500"})
    twice, _ = tuned(once, "b1", {"nouca_ms": "4000"})
    assert before.settings_for("b1").congestion == tuning.before == CongestionSettings()
    assert twice.settings_for("b1").congestion == CongestionSettings(sample_ms=1500, nouca_ms=4000)
    assert twice.settings_for("b1").heartbeat_ms == before.settings_for("b1").heartbeat_ms


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        ({"sample": "1"}, "no parameter 'sample', only profile, pdcc"),
        ({"sample_ms": "1"}, "sample_ms is 1, must be 10 to"),
        ({"profile": "rash"}, "no profile 'rash', only paper, swift"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(texts: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        tuned(lone(), "b1", texts)


def test_a_running_broker_goes_on_with_new_parameters_until_the_file_counts_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        file = tmp_path / "overlay.toml"
        file.write_text('overlay = "test"\n[brokers.b1]\nport = 0\npubends = ["a"]\n')
        async with BrokerNode(load_overlay(file), "b1") as node:
            trial = tune(node, {"pdcc": "off"}, is_trial=True)
            assert trial.after.pdcc is False
            assert node.overlay.settings_for("b1").congestion.pdcc
            tune(node, {"pdcc": "off"})
            assert not node.broker.settings.congestion.pdcc  # type: ignore[attr-defined]
            change = node.reread()
            assert change.lines() == ["broker b1 changed: tunables"]
            assert node.broker.settings.congestion.pdcc  # type: ignore[attr-defined]

    run(scenario())


CANDIDATES = """overlay = "test"
[brokers.b1]
port = 7001
[brokers.b2]
port = 7002
[[links]]
between = ["b1", "b2"]
[pubends.q]
brokers = ["b1"]
data = "postgresql://db/test"
"""


@dataclass
class Node:
    """A node that applies whatever it is told."""

    name: str
    overlay: Overlay

    def apply(self, overlay: Overlay) -> None:
        self.overlay = overlay


def test_a_home_is_tuned_at_its_candidates_and_its_broker_is_not(tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    file.write_text(CANDIDATES)
    node = Node("b1", load_overlay(file))
    assert tune(node, {"sample_ms": "1500"}, home="q.home").lines() == [
        f"sample_ms {CongestionSettings().sample_ms} to 1500"
    ]
    (home,) = node.overlay.candidate_for("b1")
    assert node.overlay.running(home, "b1").settings_for("q.home").congestion.sample_ms == 1500
    assert node.overlay.settings_for("b1").congestion == CongestionSettings()
    for name, unknown in (("b2", "q.home"), ("b1", "else.home")):
        with pytest.raises(ConfigError, match=f"broker {name} is no candidate for a home '{unknown}'"):
            tune(Node(name, node.overlay), {"sample_ms": "1500"}, home=unknown)
