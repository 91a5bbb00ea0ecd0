from __future__ import annotations

from typing import Any

import pytest

from penstock.model.errors import MisuseError
from penstock.session.settings import ClientSettings


@pytest.mark.parametrize(
    "change",
    [
        {"batch_bytes": 0},
        {"queue_bytes": -1},
        {"queue_messages": 0},
        {"connect_ms": 0},
        {"close_ms": 0},
        {"linger_ms": -1},
        {"acknowledge_ms": -1},
        {"backoff_first_ms": 0},
        {"backoff_first_ms": 100, "backoff_max_ms": 99},
        {"give_up_ms": -1},
        {"publisher": b"x" * 33},
        {"published": -1, "publisher": b"x"},
        {"published": 1},
    ],
)
def test_a_setting_that_cannot_work_is_named(change: dict[str, Any]) -> None:
    with pytest.raises(MisuseError, match=next(iter(change))):
        ClientSettings(**change)
