"""Messages of all kinds, traced in blocks and one by one: live, from the lake, and in bulk the answer is the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from live.shipping.lakes import rows_of
from penstock.model.message_id import MessageId
from penstock.pipeline.trace.group import Aliases, Group
from penstock.pipeline.trace.stored import trace_one
from pipeline.trace.recorded import RecordedOverlay, facts_in, filters_in, shown


def bulk(lake: Path, ids: list[MessageId]) -> dict[MessageId, dict[str, Any]]:
    """The traces of all messages, as one group per origin."""
    facts = facts_in(lake)
    filters = filters_in(lake, facts)
    aliases: dict[tuple[int, int], list[tuple[str, str, int]]] = {}
    for row in rows_of(lake, "aliases"):
        key = row["id_high"] % 2**64, row["id_low"] % 2**64
        aliases.setdefault(key, []).append((row["broker"], row["publisher_broker"], row["publisher_number"]))
    found: dict[MessageId, dict[str, Any]] = {}
    for origin in sorted({each.broker for each in ids}):
        own = [each for each in ids if each.broker == origin]
        times = [each.timestamp_ms for each in own]
        group = Group(facts, filters, origin, (min(times), max(times)))
        found |= traced(group, own, aliases)
    return found


def traced(group: Group, ids: list[MessageId], aliases: Aliases) -> dict[MessageId, dict[str, Any]]:
    high, low = (np.array(column, dtype=np.uint64) for column in zip(*(each.halves() for each in ids), strict=True))
    found: dict[MessageId, dict[str, Any]] = {}
    for each in group.trace(high, low, aliases):
        ends = np.cumsum(each.counts)
        for place, row in enumerate(each.rows.tolist()):
            way = msgspec.json.decode(each.ways[each.way[place]].detail, type=dict[str, Any])
            own = each.receivers[ends[place] - each.counts[place] : ends[place]]
            way["receivers"] = [list(group.facts.receivers[number]) for number in own]
            way["error"] = round(float(each.error[place]), 9)
            way["gaps"] = sorted(way["gaps"], key=lambda gap: str(tuple(gap.values())))
            found[ids[row]] = way
    return found


def quiet(overlay: RecordedOverlay) -> None:
    overlay.run(200)


def crashes(overlay: RecordedOverlay) -> None:
    overlay.run(80)
    overlay.crash(3)
    overlay.run(40)
    overlay.crash(1)
    overlay.run(60)


def late(overlay: RecordedOverlay) -> None:
    overlay.run(120)
    for age_ms in (*range(100, 900, 20), *range(300, 600, 5)):
        overlay.publish(overlay.rng.choice((1, 3)), age_ms=age_ms)
    overlay.run(100)


def moving(overlay: RecordedOverlay) -> None:
    overlay.run(150)
    overlay.nodes[2].detach("s2-0", overlay.now_ms)
    overlay.nodes[4].attach("s2-0", overlay.now_ms, {"p": (overlay.now_ms - 300) << 16})
    overlay.run(150)
    overlay.nodes[4].detach("s2-0", overlay.now_ms)
    overlay.nodes[4].unlink(f"b{overlay.parents[4]}", overlay.now_ms)
    overlay.run(100)


def unshipped(overlay: RecordedOverlay) -> None:
    overlay.nodes[2].is_shipped = False
    overlay.run(150)


def silent_origin(overlay: RecordedOverlay) -> None:
    overlay.run(150)
    overlay.nodes[1].is_shipped = False


def aliased(overlay: RecordedOverlay) -> None:
    for number in range(100):
        overlay.publish(3, named=1 if number % 10 == 0 else None)
        overlay.publish(1)
        overlay.pass_ms(3)


ALL = (quiet, crashes, late, moving, unshipped, silent_origin, aliased)
KINDS: tuple[tuple[dict[str, Any], tuple[Callable[[RecordedOverlay], None], ...]], ...] = (
    ({}, ALL),
    ({"per_subscriber": True}, (crashes, moving)),
    ({"strategy": "exact"}, (crashes, moving, aliased)),
)


@pytest.mark.parametrize(
    ("settings", "harm"), [(settings, harm) for settings, harms in KINDS for harm in harms], ids=str
)
def test_bulk_and_live_traces_agree(
    tmp_path: Path, settings: dict[str, Any], harm: Callable[[RecordedOverlay], None]
) -> None:
    overlay = RecordedOverlay(Random(f"{harm.__name__} {settings}"), brokers=6, **settings)
    harm(overlay)
    overlay.rest()
    foreign = [MessageId(9, each.broker, each.timestamp_ms, 7) for each in overlay.ids[::5]]
    ids = [*overlay.ids, *foreign]
    lake = overlay.ship(tmp_path)
    found = bulk(lake, ids)
    assert len(found) == len(set(ids))
    facts = facts_in(lake)
    filters = filters_in(lake, facts)
    for place, each in enumerate(ids):
        live = shown(overlay.trace(each))
        if harm is silent_origin:
            # Nobody can name the broker, but its neighbours have the rest.
            assert sorted(found[each]["receivers"]) == sorted(live["receivers"])
            continue
        assert found[each] == live, f"message {place} of {len(ids)}"
        if place % 40 == 0 and harm is not aliased:
            assert shown(trace_one(facts, filters, each)) == live
    ways = list(found.values())
    assert any(way["receivers"] for way in ways)
    assert any(way["gaps"] for way in ways) == (harm is crashes)
    assert any(way["unreachable"] for way in ways) == (harm in (unshipped, silent_origin))
    assert harm is not aliased or any(way["published_at"] != way["origin"] for way in ways if way["published_at"])
