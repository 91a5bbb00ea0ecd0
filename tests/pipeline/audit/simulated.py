"""A simulated overlay under harm, and the lake that its brokers ship: real tables for audits."""

from __future__ import annotations

from functools import partial
from io import StringIO
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from live.shipping.lakes import Fuse, breaking_writer
from penstock.broker.pubend.register import decode_named
from penstock.live.shipping.cargo import day_of
from penstock.live.shipping.ledger import Event
from penstock.live.shipping.rows import MARK, POSITION_PREFIX, is_shipped
from penstock.live.shipping.writer import Load
from penstock.model.body import decode_attributes
from penstock.model.lake_tables import PUBLICATIONS
from penstock.model.message_id import MESSAGE_ID_BYTES, MessageId
from penstock.pipeline.audit.job import AuditRange
from penstock.pipeline.lake import arrow_schema
from penstock.sim.client import SimClient
from penstock.sim.node import SimBroker
from penstock.sim.topologies import broker_names, tree
from penstock.sim.world import START_MS, World
from penstock.tracking.settings import TrackingSettings

RANGE = AuditRange(START_MS, START_MS + 3_600_000)
SELECTORS: Final = {"low": "number < 300", "high": "number >= 700", "all": "", "some": "number between 200 and 400"}
_EVENTS: Final = ("link-up", "link-down")
_ROUND: Final = 30
"""Messages between two blows."""


class SimulatedRun:
    """Five brokers, of which two publish; durable subscriptions at four of them, one of which moves."""

    def __init__(self, seed: int, **tracking: object) -> None:
        self._lines = StringIO()
        self.world = World(seed, output=self._lines)
        names = broker_names(5)
        settings = {"tracking": TrackingSettings(**{"persist_ms": 500, **tracking})}  # type: ignore[arg-type]
        for broker in self.world.add_overlay(tree(names, children=2), settings=settings, guaranteed=True):
            broker.disk.journal = []
        self.names = names
        self.publishers = [self.world.add_client(f"pub-{name}", name) for name in names[:2]]
        self.subscribers: dict[str, SimClient] = {}
        for (durable, selector), home in zip(SELECTORS.items(), names[1:], strict=True):
            client = self.subscribers[durable] = self.world.add_client(f"sub-{durable}", home)
            client.subscribe(selector, durable=durable)
        # Somebody who is not durable is at the same brokers.
        self.passer = self.world.add_client("passer-by", names[-1])
        self.passer.subscribe("number >= 900")

    def live(self) -> None:
        """Trade while every broker crashes once, links are cut and a subscription moves; then all comes to rest."""
        world, names = self.world, self.names
        assert world.run_until_ready()
        self._trade()
        for place, name in enumerate(names):
            world.crash(name, loud=place % 2 == 0)
            self._trade()
            world.restart(name)
            self._trade()
        world.cut(names[0], names[1])
        world.place("sub-all", names[0])
        self._trade()
        world.heal(names[0], names[1])
        self._trade()
        assert world.run_until_ready(limit_ms=120_000)
        assert world.run_until(self._is_settled, limit_ms=120_000), "the overlay does not come to rest"
        # Let the marks of all histories pass the last message.
        world.run_for(30_000)

    def journal(self) -> list[tuple[str, int, bytes]]:
        """Pubend, tick and body of all that was published."""
        return [each for broker in self.world.brokers.values() for each in broker.disk.journal or ()]

    def ship(self, folder: Path) -> Path:
        """The lake of all brokers, and the archive of all pubends."""
        (folder / "lake").mkdir(parents=True)
        for broker in self.world.brokers.values():
            self._ship(broker, folder)
        by_pubend: dict[str, list[tuple[int, bytes]]] = {}
        for pubend, tick, body in self.journal():
            by_pubend.setdefault(pubend, []).append((tick, body))
        for pubend, messages in by_pubend.items():
            place = folder / f"lake/publications/date={day_of(START_MS)}/pubend={pubend}"
            place.mkdir(parents=True)
            rows = [_archived(tick, body) for tick, body in messages]
            pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema(PUBLICATIONS)), place / "x.parquet")
        return folder / "lake"

    def _ship(self, broker: SimBroker, folder: Path) -> None:
        home = folder / broker.name
        home.mkdir()
        (home / "lake").symlink_to(folder / "lake", target_is_directory=True)
        writer = breaking_writer(home, Fuse(), broker=broker.name, pubends=broker.settings.pubends)
        writer.open(incarnation=broker.incarnation, kept=(), positions=(), now_ms=START_MS)
        for event in self._events(broker.name):
            writer.remember(event)
        disk = broker.disk
        names = [name for name in disk.kept_names() if is_shipped(name)]
        values = disk.recovered().values
        positions = {name: value for name, value in values.items() if name.startswith(POSITION_PREFIX)}
        records = disk.read_kept([*names, MARK], bytes_max=1 << 40)
        writer.ship(Load(records, dict(positions)), now_ms=self.world.clock.now_ms)
        writer.close()

    def _events(self, name: str) -> list[Event]:
        """When links came and went, by what the simulator has noted."""
        found = []
        for line in self._lines.getvalue().splitlines():
            time, who, what, *rest = line.split()
            if who == name and what in _EVENTS:
                seconds, micros = map(int, time.split("."))
                found.append(Event(START_MS + seconds * 1_000 + micros // 1_000, what, rest[0].partition("=")[2]))
        return found

    def _trade(self) -> None:
        work = self.world.workload
        for place in range(_ROUND):
            publisher, attributes = work.choice(self.publishers), {"number": work.randrange(1_000)}
            self.world.clock.after(20_000 * place, partial(publisher.publish, attributes))
        self.world.run_for(20 * _ROUND)

    def _is_settled(self) -> bool:
        if any(client.backlog or client.unsettled for client in self.publishers):
            return False
        last = {pubend: max(tick for each, tick, _ in self.journal() if each == pubend) for pubend in self._pubends()}
        for broker in self.world.brokers.values():
            for name, value in broker.disk.recovered().values.items():
                pubend = name.removeprefix(POSITION_PREFIX).rpartition("/")[0]
                if name.startswith(POSITION_PREFIX) and pubend in last and _tick(value) <= last[pubend]:
                    return False
        return True

    def _pubends(self) -> set[str]:
        return {pubend for pubend, _, _ in self.journal()}


def _tick(value: bytes) -> int:
    return decode_named(value).tick


def _archived(tick: int, body: bytes) -> dict[str, object]:
    message_id = MessageId.from_bytes(body[:MESSAGE_ID_BYTES])
    attributes = [(name, str(value)) for name, value in decode_attributes(body).items()]
    return {
        "message_id": str(message_id),
        "tick": tick,
        "published_at": message_id.timestamp_ms * 1_000,
        "attributes": attributes,
        "payload": b"",
    }
