"""Listing durable subscriptions: pubends are asked one by one, page by page, and those that are silent are named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.client.durables import DurableAt, Durables, durables
from penstock.protocol.frames import DurableEntry, DurablesReply, DurablesRequest, Frame
from penstock.session.changes import Reply


def entry(name: str, *, is_away: bool = False) -> DurableEntry:
    return DurableEntry(name, "ann", "sb", 7, 3_000, is_away, 12, 2, True, 99, "x = 1")  # noqa: FBT003


def at(away_ms: int | None) -> DurableAt:
    return DurableAt("ann", "sb", away_ms, 7, 12, 2, is_exact=True, log_bytes=99, selector="x = 1")


async def ask(question: Callable[[int], Frame], again_ms: int) -> Reply:
    frame = question(5)
    assert isinstance(frame, DurablesRequest)
    assert again_ms > 0
    if frame.pubend == "silent":
        await asyncio.sleep(60)
    if frame.pubend == "orders" and not frame.after:
        return DurablesReply(5, (entry("b"),), is_more=True)
    assert frame.after in {"", "b"}
    return DurablesReply(5, (entry("c" if frame.pubend == "orders" else "b", is_away=True),))


def test_names_are_gathered_over_pages_and_pubends() -> None:
    found = asyncio.run(durables(ask, ["orders", "trades"]))
    assert found == Durables({"b": {"orders": at(None), "trades": at(3_000)}, "c": {"orders": at(3_000)}})


def test_a_pubend_that_does_not_answer_is_named() -> None:
    found = asyncio.run(durables(ask, ["silent", "trades"], answer_s=0.01))
    assert found == Durables({"b": {"trades": at(3_000)}}, ("silent",))
