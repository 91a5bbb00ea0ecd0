"""What the settings of STOMP may be."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.errors import MisuseError
from penstock.stomp import StompSettings


def test_it_is_on_where_it_has_a_port() -> None:
    assert not StompSettings().is_on
    assert StompSettings(port=1).is_on
    assert StompSettings(websocket_port=1).is_on


def test_origins_are_separated_by_spaces() -> None:
    assert StompSettings(origins="https://a https://b").origins_allowed == ("https://a", "https://b")
    assert StompSettings().origins_allowed == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": -1},
        {"port": 65_536},
        {"websocket_port": 65_536},
        {"port": 5, "websocket_port": 5},
        {"types": "guess"},
        {"heartbeat_ms": 0},
        {"headers_max": 0},
        {"subscriptions_max": 0},
        {"transactions_max": 0},
        {"transaction_bytes": 0},
        {"unacknowledged_max": 0},
        {"prefetch": 0},
        {"prefetch": 1_001},
        {"deliveries_max": -1},
        {"deliveries_max": 1_001},
        {"work_ms": 99},
        {"work_ms": 24 * 3_600_000 + 1},
        {"nack_delay_ms": -1},
        {"nack_delay_ms": 30 * 24 * 3_600_000 + 1},
    ],
)
def test_a_setting_that_cannot_work_is_told_by_its_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(MisuseError, match=[*wrong][-1]):
        StompSettings(**wrong)
