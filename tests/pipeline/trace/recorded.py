"""An overlay that records what happens to made-up messages, traces them as brokers do, and ships to a lake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from live.shipping.lakes import Fuse, breaking_writer, rows_of
from penstock.live.shipping.ledger import Event
from penstock.live.shipping.writer import Load
from penstock.model.message_id import MessageId
from penstock.pipeline.trace.facts import LakeFacts, gather_facts
from penstock.pipeline.trace.filters import FILTER_COLUMNS
from penstock.pipeline.trace.stored import LakeFilter, filters_of
from penstock.tracking.aliases import AliasBook
from penstock.tracking.answering import Answerer
from penstock.tracking.answers import Evidence, Trace
from penstock.tracking.attachment import AttachmentMap
from penstock.tracking.hashing import subscriber_key
from penstock.tracking.reconstruct import Reconstruction
from penstock.tracking.recorder import Recorder
from penstock.tracking.records import Keep
from penstock.tracking.recovery import recover
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.sizing import FilterShape

T0 = 1_700_000_000_000
SLACK_MS = 50
SETTINGS = TrackingSettings(
    shape=FilterShape(512, 60, 5),
    efpp=0.05,
    buffer_bytes=2_000,
    publish_rate_max=500,
    delivery_rate_max=500,
    skew_tolerance_ms=20,
    jitter_ms=30,
    singletons_max=4,
)


@dataclass
class Node:
    """One broker with its store."""

    number: int
    settings: TrackingSettings
    values: dict[str, bytes] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    links: dict[str, int] = field(default_factory=dict)
    is_shipped: bool = True
    attachments: AttachmentMap = field(default_factory=AttachmentMap)
    aliases: AliasBook = field(default_factory=AliasBook)
    subscribers: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"b{self.number}"

    def start(self, now_ms: int) -> None:
        self.tracking = Recorder(self.number, self.settings, now_ms=now_ms)
        self.attachments, self.aliases = AttachmentMap(), AliasBook()
        _, keeps = recover(self.values, self.tracking, self.attachments, self.aliases, now_ms=now_ms)
        self.keep(keeps)
        self.links = dict.fromkeys(self.links, now_ms)
        self.events.append(Event(now_ms, "start"))
        self.subscribers = {}
        self.turn(now_ms)

    def turn(self, now_ms: int) -> None:
        self.tracking.on_deadline(now_ms=now_ms)
        taken = self.tracking.take()
        self.keep(taken)
        self.tracking.on_kept(taken)

    def keep(self, keeps: Sequence[Keep]) -> None:
        for keep in keeps:
            if keep.value is None:
                self.values.pop(keep.name, None)
            else:
                self.values[keep.name] = keep.value

    def link(self, neighbour: str, now_ms: int) -> None:
        self.links[neighbour] = 2**60
        self.events.append(Event(now_ms, "link-up", neighbour))

    def unlink(self, neighbour: str, now_ms: int) -> None:
        self.links[neighbour] = now_ms
        self.events.append(Event(now_ms, "link-down", neighbour))

    def attach(self, subscriber: str, now_ms: int, starts: dict[str, int] | None = None) -> None:
        number, keeps = self.attachments.attach(subscriber, starts or {}, now_ms=now_ms)
        self.subscribers[subscriber] = number
        self.keep(keeps)

    def detach(self, subscriber: str, now_ms: int) -> None:
        self.keep(self.attachments.detach(self.subscribers.pop(subscriber), {}, now_ms=now_ms))

    def deliver(self, message_id: MessageId, receivers: Sequence[str], now_ms: int) -> None:
        keys = [subscriber_key(each) for each in receivers]
        ids = message_id.to_bytes() * len(keys)
        self.tracking.record_delivered(message_id.broker, ids, keys, now_ms=now_ms)


class RecordedOverlay:
    """Brokers in a tree; messages go from their origin to where they are wanted."""

    def __init__(self, rng: Random, *, brokers: int = 8, subscribers: int = 3, **settings: Any) -> None:
        self.rng, self.now_ms = rng, T0
        self.settings = replace(SETTINGS, **settings)
        self.nodes = {number: Node(number, self.settings) for number in range(1, brokers + 1)}
        self.parents = {number: rng.randrange(max(1, number - 4), number) for number in range(2, brokers + 1)}
        self.ids: list[MessageId] = []
        self.aliases: list[MessageId] = []
        for node in self.nodes.values():
            node.start(self.now_ms)
        for number, parent in self.parents.items():
            self.nodes[number].link(f"b{parent}", self.now_ms)
            self.nodes[parent].link(f"b{number}", self.now_ms)
        for node in self.nodes.values():
            for each in range(subscribers):
                node.attach(f"s{node.number}-{each}", self.now_ms)

    def path(self, start: int, end: int) -> list[int]:
        def to_root(number: int) -> list[int]:
            return [number] if number == 1 else [number, *to_root(self.parents[number])]

        up, down = to_root(start), to_root(end)
        common = next(each for each in up if each in down)
        return [*up[: up.index(common) + 1], *reversed(down[: down.index(common)])]

    def pass_ms(self, ms: int) -> None:
        self.now_ms += ms
        for node in self.nodes.values():
            node.turn(self.now_ms)

    def publish(self, origin: int, *, age_ms: int = 0, named: int | None = None) -> MessageId:
        """A message to some subscribers, published at a broker; ``named`` is the one that its id names, if another."""
        rng, now_ms = self.rng, self.now_ms
        message_id = MessageId(rng.randrange(5), named or origin, now_ms - age_ms, len(self.ids) % 65_536)
        self.ids.append(message_id)
        node = self.nodes[origin]
        node.tracking.record_published(message_id.to_bytes(), now_ms=now_ms)
        if named is not None and named != origin:
            node.keep(node.aliases.record(message_id, node.name, origin, now_ms=now_ms))
        wanted = rng.sample(sorted(self.nodes), rng.randrange(3))
        routed = {each: None for end in wanted for each in self.path(origin, end)[1:]}
        for each in routed:
            self.nodes[each].tracking.record_routed(message_id.broker, message_id.to_bytes(), now_ms=now_ms)
        for each in wanted:
            there = sorted(self.nodes[each].subscribers)
            receivers = rng.sample(there, rng.randrange(len(there) + 1))
            if receivers:
                self.nodes[each].deliver(message_id, receivers, now_ms)
        return message_id

    def run(self, messages: int, origins: Sequence[int] = (1, 3)) -> None:
        for _ in range(messages):
            self.publish(self.rng.choice(origins), age_ms=self.rng.choice((0, 0, 0, 0, 5, 20, 45)))
            self.pass_ms(self.rng.choice((0, 1, 3, 8)))

    def crash(self, number: int) -> None:
        """What was not stored is lost."""
        node = self.nodes[number]
        names = list(node.subscribers)
        node.start(self.now_ms)
        for neighbour in node.links:
            node.link(neighbour, self.now_ms)
        for name in names:
            node.attach(name, self.now_ms)

    def trace(self, message_id: MessageId) -> Trace:
        """What a live trace answers that is led by a broker which knows everybody."""
        reached = {node.name: node for node in self.nodes.values() if node.is_shipped}
        since_ms = message_id.timestamp_ms - SLACK_MS
        links = {node.name: [n for n, ms in node.links.items() if ms >= since_ms] for node in reached.values()}
        silent = {f"b{number}" for number in self.nodes} - set(reached)
        topology = {name: [other for other, near in links.items() if name in near] for name in silent}
        origin = f"b{message_id.broker}"
        search = Reconstruction(message_id, origin, topology=topology)
        records = [node.aliases.record_of(message_id) for node in reached.values()]
        alias = next(((each.broker, each.number) for each in records if each is not None), None)
        while not search.is_done:
            for ask in search.asks():
                if ask.broker not in reached:
                    search.on_unreachable(ask.broker)
                    continue
                answer = self._answer(reached[ask.broker], message_id, ask.origins, links[ask.broker])
                if ask.broker == origin and answer.published is not Evidence.YES:
                    answer = replace(answer, alias=alias)
                search.on_answer(answer)
        return search.result()

    def _answer(self, node: Node, message_id: MessageId, origins: Sequence[int], links: Sequence[str]) -> Any:
        answerer = Answerer(
            node.name,
            node.number,
            node.tracking,
            node.attachments,
            aliases=node.aliases,
            slack_ms=SLACK_MS,
            per_subscriber=self.settings.per_subscriber,
        )
        inquiry = answerer.inquire(message_id, origins, neighbours=links, now_ms=self.now_ms)
        while inquiry.answer is None:
            inquiry.on_loaded({name: node.values.get(name) for name in inquiry.needs})
        return inquiry.answer

    def rest(self) -> None:
        """Let all be stored, and the marks be far behind."""
        for _ in range(3):
            self.pass_ms(20_000)

    def ship(self, folder: Path) -> Path:
        """All that is stored, as rows of a lake."""
        for node in self.nodes.values():
            if not node.is_shipped:
                continue
            home = folder / node.name
            home.mkdir(parents=True)
            (home / "lake").symlink_to(folder / "lake", target_is_directory=True)
            (folder / "lake").mkdir(exist_ok=True)
            writer = breaking_writer(home, Fuse(), broker=node.name)
            writer.open(incarnation=1, kept=(), positions=(), now_ms=node.events[0].at_ms)
            for event in node.events[1:]:
                writer.remember(event)
            writer.ship(Load({**node.values}), now_ms=self.now_ms)
            writer.close()
        return folder / "lake"


def facts_in(lake: Path) -> LakeFacts:
    """The facts of a lake, read without Spark."""
    tables = {name: rows_of(lake, name) for name in ("gaps", "attachments", "topology", "aliases")}
    histories = [*rows_of(lake, "histories"), *rows_of(lake, "records")]
    return gather_facts({**tables, "histories": histories}, slack_ms=SLACK_MS)


def filter_rows(lake: Path) -> list[dict[str, Any]]:
    """The filters of a lake as rows, as tasks get them."""
    rows = []
    for row in rows_of(lake, "histories", key=lambda row: (row["broker"], row["history"], row["filter_id"])):
        wanted = {**row, "added_ms": int(row["added_at"].timestamp() * 1_000 + 0.5)}
        rows.append({name: wanted[name] for name in (*FILTER_COLUMNS, "origin")})
    blocks: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows_of(lake, "records"):
        blocks.setdefault((row["broker"], row["history"], row["filter_id"]), []).append(row)
    for block in blocks.values():
        ids = b"".join((row["id_high"] % 2**64).to_bytes(8) + (row["id_low"] % 2**64).to_bytes(8) for row in block)
        keys = [row["subscriber_key"] for row in block]
        packed = b"" if keys[0] is None else b"".join((key % 2**64).to_bytes(8) for key in keys)
        rows.append({**block[0], "m": 0, "count": len(block), "bits": ids + packed})
    return rows


def filters_in(lake: Path, facts: LakeFacts) -> list[LakeFilter]:
    """The filters of a lake, read without Spark."""
    return list(filters_of(filter_rows(lake), now_ms=facts.now_ms))


def shown(trace: Trace) -> dict[str, Any]:
    """A trace as the bulk trace tells it."""
    shown: dict[str, Any] = msgspec.to_builtins(
        {
            "origin": trace.origin,
            "published_at": trace.published_at,
            "published": trace.published,
            "routed_by": trace.routed_by,
            "hops": [
                {"broker": hop.broker, "parent": hop.parent, "claim": hop.claim, "is_counted": hop.is_counted}
                for hop in trace.hops
            ],
            "probable_false_positives": trace.probable_false_positives,
            "unreachable": trace.unreachable,
            "unknown": trace.unknown,
            "gaps": sorted(trace.gaps, key=str),
            "asked": trace.asked,
            "is_truncated": trace.is_truncated,
            "is_complete": trace.is_complete,
            "receivers": trace.receivers,
            "error": round(trace.error_probability, 9),
        }
    )
    return msgspec.json.decode(msgspec.json.encode(shown), type=dict[str, Any])
