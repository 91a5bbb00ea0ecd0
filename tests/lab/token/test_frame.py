"""What the simulated experiments of the token have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.lab.frame.errors import ParameterError
from penstock.lab.frame.experiment import Context
from penstock.lab.token.frame import constants_of, walked
from penstock.model.reporting import QuietReporter
from penstock.token.settings import PAPER, Constants


def context(**parameters: str | int) -> Context:
    return Context(1, parameters, QuietReporter(), Path("unused.png"))


def test_the_constants_are_those_of_the_paper_for_the_variant_asked_for() -> None:
    assert constants_of(context(variant="paper")) == Constants(variant=PAPER)
    assert constants_of(context(variant="paper"), growth=1.0).growth == 1.0


def test_another_variant_is_refused() -> None:
    with pytest.raises(ParameterError, match="'quick' is neither paper nor swift"):
        constants_of(context(variant="quick"))


def test_a_run_takes_as_many_units_as_asked_for() -> None:
    walk = walked(context(variant="swift", units=2_000), 150)
    assert walk.now_ms == 2_000_000
    assert len(walk.walkers) == 150
