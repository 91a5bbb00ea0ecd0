"""PIE messages as attributes, and what is not believed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.balancing.metrics import Load
from penstock.balancing.pie import MalformedError, Pie, average
from penstock.balancing.states import State
from penstock.model.message import Message

LOCAL = Pie("e1", "c1", State.NOT_AVAILABLE, Load(0.5, 0.25, 0.02), ("e2", "e3"))


def test_a_local_one_is_a_publication_of_the_reserved_space() -> None:
    attributes = LOCAL.attributes()
    assert (attributes["$class"], attributes["$scope"], attributes["$state"]) == ("PIE", "local", "N/A")
    assert "$to" not in attributes
    Message.system(attributes)
    assert Pie.from_attributes(attributes) == LOCAL


def test_a_global_one_is_addressed_and_counts_hops() -> None:
    pie = Pie("h1", "c1", State.OK, Load(0.5), is_global=True, hops=1)
    attributes = pie.attributes("h2")
    assert attributes["$to"] == "h2"
    assert Pie.from_attributes(attributes) == pie


@pytest.mark.parametrize(
    "changes",
    [
        {"$input": float("nan")},
        {"$input": float("inf")},
        {"$input": 1e9},
        {"$output": -0.1},
        {"$delay_s": "slow"},
        {"$delay_s": None},
        {"$input": True},
        {"$state": "DEAD"},
        {"$broker": ""},
        {"$broker": 7},
        {"$cluster": "x" * 201},
        {"$balanced": "e " * 8_193},
    ],
)
def test_what_cannot_be_right_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(MalformedError):
        Pie.from_attributes({**LOCAL.attributes(), **changes})


def test_no_more_names_are_sent_than_are_taken() -> None:
    pie = replace(LOCAL, balanced=tuple(f"e{number:0190d}" for number in range(1_000)))
    assert 80 < len(Pie.from_attributes(pie.attributes()).balanced) < 90


def test_a_cluster_is_the_mean_of_its_edges() -> None:
    mean = average([Load(0.25, 0.5, 0.01), Load(0.75, 0.0, 0.03)])
    assert (mean.input, mean.output) == (0.5, 0.25)
    assert mean.delay_s == pytest.approx(0.02)
    assert average([]) == Load()
