"""A broker until somebody ends it."""

from __future__ import annotations

import os
import signal

import pytest

from live.support import lone, run
from penstock.live.node import BrokerNode
from penstock.live.serving import serve


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(which: signal.Signals) -> None:
    nodes: list[BrokerNode] = []

    def on_ready(node: BrokerNode) -> None:
        assert node.is_serving
        nodes.append(node)
        os.kill(os.getpid(), which)

    run(serve(lone(), "b1", on_ready=on_ready))
    assert not nodes[0].is_serving
