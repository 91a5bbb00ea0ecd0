"""How publishing looks to applications is tested with the client; here is who waits, and for whom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from client.scripted import run
from penstock.client.publisher import Publisher
from penstock.client.reports import Reports
from penstock.model.body import encode_content
from penstock.protocol.frames import PROTOCOL_VERSION, PublishAck, Welcome
from penstock.session.errors import WouldBlockError
from penstock.session.settings import ClientSettings
from session.stage import Stage


class Bench:
    """A publisher whose session is up, and whose connection writes nothing."""

    def __init__(self, credit_bytes: int) -> None:
        stage = Stage(settings=ClientSettings(linger_ms=0))
        stage.connect(stage.open())
        self.feed = partial(stage.tell, stage.line)
        self.feed(Welcome(PROTOCOL_VERSION, "b1", "test", 11, 2, 50_000, 1_000, credit_bytes))
        self.session = stage.session
        shell: Any = SimpleNamespace(now_ms=lambda: stage.now_ms, pump=stage.pump, schedule=lambda: None)
        self.publisher = Publisher(self.session, shell, Reports(self.session.publishing), self.until)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0)


def test_without_room_nothing_is_taken_and_who_waits_goes_first() -> None:
    async def test() -> None:
        bench = Bench(credit_bytes=100)
        bench.publisher.publish_nowait(encode_content({"n": 1}), "", None)
        with pytest.raises(WouldBlockError, match="1 messages are not acknowledged yet"):
            bench.publisher.publish_nowait(encode_content({"n": 2}, bytes(100)), "", None)
        large = asyncio.create_task(bench.publisher.publish(encode_content({"n": 3}, bytes(90)), "", None))
        await asyncio.sleep(0)
        with pytest.raises(WouldBlockError):
            bench.publisher.publish_nowait(encode_content({"n": 4}), "", None)
        small = asyncio.create_task(bench.publisher.publish(encode_content({"n": 5}), "", None))
        await asyncio.sleep(0)
        assert (large.done(), small.done()) == (False, False)
        bench.feed(PublishAck(1, 100))
        first = await large
        bench.feed(PublishAck(2, 200))
        assert first < await small
        assert bench.session.publishing.published == 3

    run(test())
