from __future__ import annotations

import numpy as np

from penstock.ajil.observation import Observation


def seen(channels: int) -> Observation:
    two = np.ones((2, channels))
    return Observation(
        np.zeros(1, dtype=np.int64), np.ones((2, 1)), np.ones(1), two, two.copy(), np.ones(channels), two.copy()
    )


def test_channels_that_were_opened_later_have_sent_nothing() -> None:
    each = seen(1)
    each.fit(3)
    assert each.sent.tolist() == [[1, 0, 0], [1, 0, 0]]
    assert each.ranks[0].tolist() == [1, np.inf, np.inf]
    assert (each.sizes.tolist(), each.wanted.shape) == ([1, 1, 1], (2, 3))
    each.fit(3)
    assert each.sent.shape == (2, 3)


def test_a_closed_channel_has_sent_nothing() -> None:
    each = seen(2)
    each.forget(0)
    each.forget(9)
    assert each.sent.tolist() == [[0, 1], [0, 1]]
    assert each.ranks[1].tolist() == [np.inf, 1]
