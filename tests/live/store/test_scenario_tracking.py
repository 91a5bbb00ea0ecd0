"""Tracking, on what a store or a simulated disk gives back: it goes on where it was, and denies nothing it has lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from live.store.support import tamper
from penstock.broker.durable import KeepRecord, Recovered
from penstock.live.store import LogStore
from penstock.sim.disk import Disk
from penstock.tracking.aliases import AliasBook
from penstock.tracking.attachment import AttachmentMap
from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.recorder import Recorder
from penstock.tracking.records import Keep
from penstock.tracking.recovery import recover
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.stored import decode_filter
from tracking.ids import joined, make_id, make_ids

ROUTE = HistoryKey(Phase.ROUTE, 2)
BLOOM = TrackingSettings(persist_ms=500)
EXACT = replace(BLOOM, strategy="exact")


class Memory(Protocol):
    def keep(self, records: Sequence[KeepRecord]) -> None: ...

    def recovered(self) -> Recovered: ...

    def read(self, names: Sequence[str]) -> Mapping[str, bytes | None]: ...

    def damage(self, name: str) -> None: ...


class LiveMemory:
    """Opens the store anew for each question, as one life after the other would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def opened(self) -> closing[LogStore]:
        return closing(LogStore.open(self.folder, overlay="o", broker="b1", reserve_bytes=0))

    def keep(self, records: Sequence[KeepRecord]) -> None:
        with self.opened() as store:
            store.commit(records)

    def recovered(self) -> Recovered:
        with self.opened() as store:
            return store.recovered()

    def read(self, names: Sequence[str]) -> Mapping[str, bytes | None]:
        with self.opened() as store:
            return store.read_kept(names, bytes_max=1 << 20).values

    def damage(self, name: str) -> None:
        body = "UPDATE kept_bodies SET stored=x'00' WHERE place=(SELECT place FROM kept WHERE name=?)"
        tamper(self.folder, body, name)
        tamper(self.folder, "UPDATE kept SET start=x'00' WHERE name=? AND start IS NOT NULL", name)


class SimMemory:
    def __init__(self) -> None:
        self.disk = Disk()

    def keep(self, records: Sequence[KeepRecord]) -> None:
        self.disk.apply(records)

    def recovered(self) -> Recovered:
        return self.disk.recovered()

    def read(self, names: Sequence[str]) -> Mapping[str, bytes | None]:
        return self.disk.read_kept(names)

    def damage(self, name: str) -> None:
        self.disk.damage_kept(name)


@pytest.fixture(params=["live", "sim"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Memory:
    return LiveMemory(tmp_path) if request.param == "live" else SimMemory()


class Life:
    def __init__(self, memory: Memory, settings: TrackingSettings = BLOOM, *, now_ms: int) -> None:
        self.memory = memory
        self.recorder = Recorder(1, settings, now_ms=now_ms)
        self.attachments = AttachmentMap()
        kept = memory.recovered().kept
        self.damaged, keeps = recover(kept, self.recorder, self.attachments, AliasBook(), now_ms=now_ms)
        self.keep(keeps)

    def keep(self, keeps: Sequence[Keep]) -> None:
        taken = self.recorder.take()
        self.memory.keep([KeepRecord(each.name, each.value) for each in (*keeps, *taken)])
        self.recorder.on_kept(taken)


def first_life(memory: Memory, settings: TrackingSettings = BLOOM) -> list[str]:
    """Fills some filters, leaves one open if they can be, and stops in order; gives the names of the closed ones."""
    life = Life(memory, settings, now_ms=1_000)
    _, keeps = life.attachments.attach("alice", {}, now_ms=1_000)
    life.keep(keeps)
    for turn in range(60):
        now_ms = 2_000 + 100 * turn
        life.recorder.record_routed(2, joined(make_ids(now_ms, 100)), now_ms=now_ms)
        life.recorder.on_deadline(now_ms=now_ms)
        life.keep([])
    life.recorder.stop(now_ms=9_000)
    life.keep([])
    headers = life.recorder.catalogue.headers()
    # Exact records are never continued.
    assert [each.is_open for each in headers].count(True) == (settings.strategy == "bloom")
    return [f"filter/{each.name}" for each in headers if not each.is_open]


@pytest.mark.parametrize("settings", [BLOOM, EXACT], ids=["bloom", "exact"])
def test_a_second_life_continues_the_open_filter_and_reads_the_others(
    memory: Memory, settings: TrackingSettings
) -> None:
    closed = first_life(memory, settings)
    assert len(closed) > 1
    second = Life(memory, settings, now_ms=10_000)
    assert second.damaged == []
    for time_ms in range(2_000, 8_000, 100):
        matching = second.recorder.matching(ROUTE, time_ms, now_ms=10_000)
        assert matching.is_known
        assert matching.gaps == []
        message = make_id(time_ms).to_bytes()
        names = [f"filter/{each.name}" for each in matching.stored]
        values = memory.read(names)
        stored = [decode_filter(values[name] or b"").container() for name in names]
        high, low = int.from_bytes(message[:8]), int.from_bytes(message[8:])
        assert any(each.contains(high, low) for each in (*stored, *(each for _, each in matching.memory)))
    second.recorder.record_routed(2, joined(make_ids(10_000, 10)), now_ms=10_000)
    assert len(second.recorder.matching(ROUTE, 10_000, now_ms=10_000).memory) == 1


def test_a_damaged_filter_leaves_a_gap_and_not_a_no(memory: Memory) -> None:
    closed = first_life(memory)
    memory.damage(closed[0])
    second = Life(memory, now_ms=10_000)
    assert second.damaged == [closed[0]]
    assert [gap.reason for gap in second.recorder.matching(ROUTE, 2_000, now_ms=10_000).gaps] == ["damaged"]
    assert memory.read(closed[:1]) == {closed[0]: None}


@pytest.mark.parametrize("name", ["mark", "attachment/000000000001"])
def test_a_damaged_small_record_makes_the_past_uncertain(memory: Memory, name: str) -> None:
    first_life(memory)
    memory.damage(name)
    second = Life(memory, now_ms=10_000)
    assert name in second.damaged
    gaps = second.recorder.matching(ROUTE, 2_000, now_ms=10_000).gaps
    assert gaps != [] or second.attachments.known_since_ms == 10_000


def test_with_a_lost_index_the_past_is_unknown(tmp_path: Path) -> None:
    memory = LiveMemory(tmp_path)
    first_life(memory)
    tamper(tmp_path, "DELETE FROM kept WHERE name LIKE 'filter/%'")
    second = Life(memory, now_ms=10_000)
    assert not second.recorder.matching(ROUTE, 2_000, now_ms=10_000).is_known
    assert second.recorder.matching(ROUTE, 10_500, now_ms=10_500).is_known
