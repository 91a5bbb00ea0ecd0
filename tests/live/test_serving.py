"""A broker until somebody ends it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from live.support import lone, run, until
from penstock.live.config import load_overlay
from penstock.live.node import BrokerNode
from penstock.live.serving import serve
from penstock.live.signals import Signals


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(which: signal.Signals) -> None:
    nodes: list[BrokerNode] = []

    def on_ready(node: BrokerNode) -> None:
        assert node.is_serving
        nodes.append(node)
        os.kill(os.getpid(), which)

    run(serve(lone(), "b1", on_ready=on_ready))
    assert not nodes[0].is_serving


def test_a_hangup_lets_it_reread_its_file_and_a_bad_file_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "overlay.toml"
    text = "overlay = 'test'\n[brokers.b1]\nport = 0\n"
    steps = [text, text + "[brokers.b2]\nport = 1\n", text + "nonsense = 1\n"]
    events = ["overlay-unchanged", "overlay-applied", "overlay-refused"]

    async def scenario() -> None:
        ready = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(serve(load_overlay(file), "b1", on_ready=ready.set_result))
        node: BrokerNode = await ready
        for content, event in zip(steps, events, strict=True):
            file.write_text(content)
            os.kill(os.getpid(), signal.SIGHUP)
            await until(lambda event=event: event in [each.message for each in caplog.records])  # type: ignore[misc]
        assert list(node.overlay.brokers) == ["b1", "b2"]
        os.kill(os.getpid(), signal.SIGTERM)
        await serving

    file.write_text(text)
    with caplog.at_level("INFO", logger="penstock"):
        run(scenario())


def test_what_was_noted_before_is_carried_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "overlay.toml"
    file.write_text("overlay = 'test'\n[brokers.b1]\nport = 0\n")
    hung_up, ended = Signals(), Signals()
    hung_up.note_hangup(signal.SIGHUP, None)
    ended.note_ending(signal.SIGTERM, None)
    before = signal.getsignal(signal.SIGHUP)

    async def scenario() -> None:
        await serve(load_overlay(file), "b1", signals=ended, on_ready=lambda _: pytest.fail("it has started"))
        serving = asyncio.create_task(serve(load_overlay(file), "b1", signals=hung_up))
        await until(lambda: "overlay-unchanged" in [each.message for each in caplog.records])
        os.kill(os.getpid(), signal.SIGTERM)
        await serving

    try:
        with caplog.at_level("INFO", logger="penstock"):
            run(scenario())
        # The process is about to end, and must not be killed on its last steps, when handlers do not work any more.
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_broker_of_a_program_leaves_the_handlers_as_they_were() -> None:
    before = signal.getsignal(signal.SIGHUP)
    run(serve(lone(), "b1", on_ready=lambda _: os.kill(os.getpid(), signal.SIGTERM)))
    assert signal.getsignal(signal.SIGHUP) == before
