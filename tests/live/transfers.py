"""Stores that have a bit of everything, for the tests of copies."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

from penstock.broker.durable import Append, Change, ForgetPublishers, KeepRecord, MarkLost, SetValue, Trim
from penstock.live.store import LogStore
from penstock.live.stores import MovableStore
from penstock.model.tick import TICK_MAX, TICK_MIN, Tick, TickRange

PUBENDS = ("p", "q", "r")


def opened(folder: Path, *, broker: str = "b1") -> closing[LogStore]:
    return closing(LogStore.open(folder, overlay="o", broker=broker, reserve_bytes=0))


def fill(store: MovableStore, rng: Random, *, commits: int = 60) -> None:
    """Commit anything in any order, lost ticks included."""
    tick = rng.randrange(1, 50)
    for number in range(commits):
        changes: list[Change] = []
        for pubend in rng.sample(PUBENDS, rng.randrange(3)):
            count = rng.randrange(6)
            messages = [(Tick(tick + each), rng.randbytes(rng.randrange(300))) for each in range(count)]
            tick += count + rng.randrange(3)
            publishers = {b"%d" % rng.randrange(20): tick for _ in range(rng.randrange(3))}
            changes.append(Append(pubend, messages, Tick(tick + 50), publishers))
            if rng.random() < 0.3:
                changes.append(Trim(pubend, Tick(max(0, tick - rng.randrange(40)))))
        if rng.random() < 0.2:
            changes.append(ForgetPublishers(rng.choice(PUBENDS), Tick(max(0, tick - rng.randrange(60)))))
        if rng.random() < 0.3:
            changes.append(SetValue(rng.choice(VALUES), rng.choice([None, rng.randbytes(9)])))
        if rng.random() < 0.3:
            changes.append(KeepRecord(f"gap/{rng.randrange(9)}", rng.choice([None, rng.randbytes(2_000)])))
        store.commit(changes)
        if number % 20 == 10:
            store.commit([Append("p")])
            store.commit([MarkLost("p", TickRange(Tick(tick), Tick(tick + 3)))])
            tick += 4


VALUES = ("durable/p/billing", "durable/q/a/b", "work/p/head/group", "last/r/17/symbol", "incarnation")


def content(store: MovableStore, pubends: tuple[str, ...] = PUBENDS) -> dict[str, object]:
    """Everything that a store can tell of these pubends."""
    recovered = store.recovered()
    found: dict[str, object] = {}
    for name in pubends:
        pubend = recovered.pubends.get(name)
        if pubend is None:
            continue
        first: Tick | None = TICK_MIN
        log: list[object] = []
        while first is not None:
            part = store.read_part(name, first, TICK_MAX, bytes_max=1_000)
            log += part.messages
            last = part.last
            if part.damaged is not None:
                log.append(part.damaged.ticks)
                last = part.damaged.ticks.last
            first = None if last >= TICK_MAX else Tick(last + 1)
        bounds = (pubend.lease, pubend.first_tick, pubend.last_tick, pubend.trimmed_below, dict(pubend.sequences))
        found[name] = (bounds, store.publishers(name), log)
    names = list(recovered.kept)
    found["values"] = dict(recovered.values)
    found["kept"] = [(name, store.read_kept([name], bytes_max=1).values[name]) for name in names]
    return found
