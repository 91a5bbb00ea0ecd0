"""A broker whose store lost messages does not start; once salvaged, it tells subscribers what they lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from live.support import FramePeer, guaranteed, run, until
from penstock.live.errors import StorageError
from penstock.live.node import BrokerNode
from penstock.live.store.inspecting import LOG_NAME
from penstock.live.store.salvage import salvage
from penstock.model.body import decode_attributes
from penstock.protocol.frames import Lost, PublishAck, Subscribe

COUNT = 40


async def published(node: BrokerNode, *numbers: int) -> None:
    """Publish each of them in a commit of its own."""
    peer = await FramePeer.client(node.address)
    for sent, number in enumerate(numbers, start=1):
        peer.publish({"number": number})
        await until(lambda sent=sent: peer.all(PublishAck) and peer.all(PublishAck)[-1].sequence == sent)  # type: ignore[misc]
    await peer.close()


async def killed(folder: Path, copy: Path) -> None:
    """What a kill leaves of a broker that has acknowledged some messages."""
    async with BrokerNode(guaranteed(folder), "b1") as node:
        await published(node, *range(COUNT))
        shutil.copytree(folder, copy)


def test_messages_that_a_damaged_log_lost_reach_subscribers_as_lost(tmp_path: Path) -> None:
    copy = tmp_path / "copy"

    async def scenario() -> None:
        await killed(tmp_path / "store", copy)
        with (copy / LOG_NAME).open("r+b") as log:
            log.truncate((copy / LOG_NAME).stat().st_size // 2)
        with pytest.raises(StorageError, match=f"penstock store salvage {copy}"):
            await BrokerNode(guaranteed(copy), "b1").start()
        done = salvage(copy, stamp="now", now_ms=0)
        assert 0 < done.messages < COUNT
        async with BrokerNode(guaranteed(copy), "b1") as node:
            reader = await FramePeer.client(node.address, "reader")
            reader.send(Subscribe(1, "number >= 0", otherwise=0))
            lost = await reader.get(Lost)
            await published(node, 1_000)
            await until(lambda: len(reader.delivered()) > done.messages)
            numbers = [decode_attributes(body)["number"] for body in reader.delivered()]
            assert numbers == [*range(done.messages), 1_000]
            (ticks,) = done.lost["b1.a"]
            assert lost.numbers == (1,)
            assert (reader.all(Lost)[0].first, reader.all(Lost)[-1].last) == ticks
            await reader.close()

    run(scenario())
