"""Effects: values that a trace can be made of."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from penstock.broker import effects
from penstock.broker.durable import Trim
from penstock.broker.effects import (
    Close,
    Commit,
    Effect,
    EndLife,
    Hold,
    Operate,
    ReadKept,
    ReadLog,
    Record,
    Resume,
    Wake,
)
from penstock.model.tick import Tick

EXAMPLES: list[Effect] = [
    Wake(1),
    Close(1, "slow", "does not read"),
    Hold(1),
    Resume(1),
    Record("link-up", (("neighbour", "b"),)),
    Commit(1, (Trim("p", Tick(7)),)),
    ReadLog(1, "p", 0, 9, 100),
    ReadKept(1, ("mark",)),
    Operate("1/a/1", 5),
    EndLife("a later life runs elsewhere"),
]


def test_every_kind_of_effect_is_exported_and_tried_here() -> None:
    kinds = {type(each) for each in EXAMPLES}
    assert kinds == set(get_args(Effect)) == {getattr(effects, name) for name in effects.__all__ if name != "Effect"}


@pytest.mark.parametrize("effect", EXAMPLES, ids=lambda each: type(each).__name__)
def test_effects_are_equal_by_value_hashable_and_cannot_be_changed(effect: Effect) -> None:
    copied = dataclasses.replace(effect)
    assert copied == effect
    assert copied is not effect
    assert len({copied, effect}) == 1
    name = dataclasses.fields(effect)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(effect, name, 2)


def test_effects_of_different_kinds_or_content_differ() -> None:
    assert Wake(1) != Wake(2)
    assert Close(1, "slow", "x") != Close(1, "slow", "y")
    assert Record("a") != Record("a", (("n", 1),))
    assert len({*EXAMPLES, Wake(2), Record("link-up")}) == 12


def test_a_record_may_have_no_fields() -> None:
    assert Record("started").fields == ()
