from __future__ import annotations

import pytest

from penstock.ajil.aup import UNLIMITED
from penstock.ajil.errors import AupError
from penstock.ajil.settings import LimitSettings


def test_a_group_is_the_topic_unless_something_else_is_said() -> None:
    assert LimitSettings() == LimitSettings(UNLIMITED, "topic")


def test_an_attribute_needs_a_name() -> None:
    with pytest.raises(AupError, match="must have 1 to 255 characters"):
        LimitSettings(attribute="")
