from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.ajil.amounts import Unit
from penstock.ajil.aup import UNLIMITED, Aup
from penstock.ajil.errors import AupError
from penstock.ajil.policy import FlatTax, GlobalPercentage, LocalPercentage, NaiveZero


def test_defaults_are_the_papers() -> None:
    assert (UNLIMITED.alpha, UNLIMITED.beta, UNLIMITED.report_fraction, UNLIMITED.policy) == (0.5, 0.25, 0.01, "global")
    assert (UNLIMITED.epoch_ms, UNLIMITED.timeout_epochs, UNLIMITED.smoothing) == (1000, 200, 1.0)
    assert not UNLIMITED.is_limited


def test_limits_are_per_second_and_handed_out_per_epoch() -> None:
    aup = Aup(limit_bytes_s=600_000, limit_packets_s=50, epoch_ms=200)
    assert aup.limit(Unit.BYTES) == 120_000
    assert aup.limit(Unit.PACKETS) == 10
    assert aup.is_limited
    assert UNLIMITED.limit(Unit.BYTES) is None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"limit_bytes_s": 0}, "limit_bytes_s is 0, must be 1 to"),
        ({"limit_bytes_s": float("nan")}, "limit_bytes_s is nan"),
        ({"limit_bytes_s": "600"}, "must be of type float | None"),
        ({"alpha": 1.1}, "alpha is 1.1, must be 0 to 1"),
        ({"beta": -0.1}, "beta is -0.1"),
        ({"epoch_ms": 5}, "epoch_ms is 5"),
        ({"epoch_ms": 200.5}, "must be of type int"),
        ({"policy": "kind"}, "policy is 'kind', must be one of flat, local, global, naive"),
        ({"mode": "firm"}, "mode is 'firm', must be one of soft, hard"),
        ({"slowdown": "nap"}, "slowdown is 'nap', must be one of drop, delay"),
        ({"smoothing": 0}, "smoothing is 0"),
        ({"priorities": {"g": 2}}, "the priority of group 'g' is 2, must be a number from 0 to 1"),
        ({"priorities": {"g": True}}, "the priority of group 'g' is True"),
        ({"priorities": [1]}, "must be a table"),
        ({"priorities": {str(each): 0 for each in range(1001)}}, "names 1,001 groups"),
        ({"author": "x" * 256}, "author has 256 characters"),
        ({"version": -1}, "version is -1"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(AupError) as caught:
        Aup(**changes)
    assert text in str(caught.value)


def test_the_highest_version_wins_then_the_author_then_the_content() -> None:
    old, new = Aup(version=1, author="zoe"), Aup(version=2, author="ann")
    assert new.order > old.order
    assert replace(new, author="bob").order > new.order
    one, other = replace(new, limit_bytes_s=1000.0), replace(new, limit_bytes_s=2000.0)
    assert one.order != other.order
    assert max([one, other], key=lambda each: each.order) == max([other, one], key=lambda each: each.order)


def test_a_successor_has_the_next_version_and_keeps_the_rest() -> None:
    aup = Aup(limit_bytes_s=1000, alpha=0.7, version=4).successor("ann", limit_bytes_s=2000)
    assert (aup.version, aup.author, aup.limit_bytes_s, aup.alpha) == (5, "ann", 2000, 0.7)


def test_each_policy_by_its_name() -> None:
    assert Aup(policy="flat", tax_bytes_s=500, epoch_ms=200).slowdown_policy(Unit.BYTES) == FlatTax(100)
    assert Aup(policy="flat", tax_packets_s=5).slowdown_policy(Unit.PACKETS) == FlatTax(5)
    assert Aup(policy="local", fraction=0.3).slowdown_policy(Unit.BYTES) == LocalPercentage(0.3)
    assert Aup(policy="naive").slowdown_policy(Unit.BYTES) == NaiveZero()
    assert Aup().slowdown_policy(Unit.BYTES) == GlobalPercentage()


def test_it_describes_itself() -> None:
    assert UNLIMITED.describe() == "no limit"
    assert Aup(limit_bytes_s=600_000).describe() == "600 KB/s (global, alpha 0.5, beta 0.25)"
    assert Aup(limit_bytes_s=600_000, limit_packets_s=9, mode="hard").describe() == "600 KB/s and 9 packets/s (hard)"
