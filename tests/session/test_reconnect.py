from __future__ import annotations

from random import Random
from typing import Any

import pytest

from penstock.session.reconnect import Reconnect
from penstock.session.settings import ClientSettings


def lost_at(now_ms: int, **changes: Any) -> Reconnect:
    settings = ClientSettings(backoff_first_ms=100, backoff_max_ms=1_000, **changes)
    reconnect = Reconnect(settings, Random(3))
    reconnect.on_lost(now_ms=now_ms)
    return reconnect


def test_pauses_double_up_to_their_limit_and_differ_by_chance() -> None:
    reconnect = lost_at(0)
    pauses = [reconnect.pause_ms(now_ms=0) for _ in range(40)]
    for pause, longest in zip(pauses, [100, 200, 400, 800, *[1_000] * 36], strict=True):
        assert pause is not None
        assert longest // 2 <= pause <= longest
    assert len({*pauses[4:]}) > 10


def test_a_connection_that_lasted_begins_with_short_pauses_again() -> None:
    reconnect = lost_at(0)
    for _ in range(5):
        reconnect.pause_ms(now_ms=0)
    reconnect.on_welcome(now_ms=10_000)
    reconnect.on_lost(now_ms=11_000)
    assert (reconnect.pause_ms(now_ms=11_000) or 0) <= 100


def test_a_connection_that_did_not_last_counts_as_a_failure() -> None:
    reconnect = lost_at(0)
    for _ in range(5):
        reconnect.pause_ms(now_ms=0)
    reconnect.on_welcome(now_ms=10_000)
    reconnect.on_lost(now_ms=10_001)
    assert (reconnect.pause_ms(now_ms=10_001) or 0) >= 500


def test_a_client_gives_up_after_its_time_without_a_connection() -> None:
    reconnect = lost_at(1_000, give_up_ms=500)
    assert reconnect.pause_ms(now_ms=1_499) is not None
    reconnect.on_lost(now_ms=1_499)
    assert reconnect.pause_ms(now_ms=1_500) is None


@pytest.mark.parametrize(
    ("code", "may"), [("refused", False), ("", True), ("shutdown", True), ("slow", True), ("full", True)]
)
def test_only_a_refusal_is_final(code: str, may: bool) -> None:
    assert Reconnect.may_follow(code) is may
