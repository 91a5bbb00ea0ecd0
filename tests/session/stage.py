"""A session on a stage: the test is its shell and its brokers, and says how time passes."""

from __future__ import annotations

from random import Random
from typing import TypeVar

from penstock.protocol.frames import PROTOCOL_VERSION, Frame, PubendNames, Subscribe, Subscribed, Welcome
from penstock.session.address import Address, parse_addresses
from penstock.session.changes import Abort, Changes, Dial, HangUp
from penstock.session.errors import ClientError
from penstock.session.inbox import Inbox, Wanted
from penstock.session.session import Session
from penstock.session.settings import ClientSettings

OLD, NEW = "penstock://old:7000", "penstock://new:7000"
NAMES = PubendNames(((0, "quotes"), (1, "loose")))

_Frame = TypeVar("_Frame", bound=Frame)


GUARANTEED, LOOSE = "quotes", "loose"
"""Two pubends of the overlay, by their service classes."""


def welcome(broker: str, *, heartbeat_ms: int = 60_000) -> Welcome:
    """The greeting of a broker; it is not the one that hosts the pubends."""
    others = ((GUARANTEED, "home", True), (LOOSE, "home", False))
    return Welcome(PROTOCOL_VERSION, broker, "o", 11, 2, 50_000, heartbeat_ms, 100_000, others=others)


class Stage:
    """One session, and what it did."""

    def __init__(self, addresses: str = OLD, settings: ClientSettings | None = None) -> None:
        self.session = Session(
            settings or ClientSettings(), parse_addresses(addresses), name="me", publisher=bytes(16), chance=Random(1)
        )
        self.now_ms = 10_000
        self.dialled: dict[int, Address] = {}
        """All lines that were asked for, by number."""
        self.gone: dict[int, None] = {}
        """Those of which nothing is left."""
        self.said: dict[int, list[Frame]] = {}
        """What was said on each, last words included."""
        self.changes: list[Changes] = []
        self.is_slow = False
        """Whether a line that is hung up stays until the test says that it is gone."""

    @property
    def line(self) -> int:
        """The line that was dialled last."""
        return max(self.dialled)

    @property
    def end(self) -> ClientError | None:
        return next((each.end for each in self.changes if each.end is not None), None)

    def open(self) -> int:
        self.react(self.session.open(now_ms=self.now_ms))
        return self.line

    def connect(self, line: int) -> None:
        self.session.on_connected(line, now_ms=self.now_ms)
        self.pump()

    def tell(self, line: int, *frames: Frame) -> Changes:
        changes = self.session.on_frames(line, frames, now_ms=self.now_ms, wall_ms=self.now_ms)
        self.react(changes)
        return changes

    def welcome(self, line: int, broker: str = "old", *, heartbeat_ms: int = 60_000) -> None:
        self.connect(line)
        self.tell(line, welcome(broker, heartbeat_ms=heartbeat_ms), NAMES)

    def publish(self, body: bytes, pubend: str = GUARANTEED) -> None:
        queue = self.session.publishing.queue_for(pubend)
        assert queue is not None, "its broker knows the pubend"
        queue.put(body, now_ms=self.now_ms)

    def lose(self, line: int, problem: str = "cut") -> None:
        if line not in self.gone:
            self.gone[line] = None
            self.react(self.session.on_lost(line, problem, now_ms=self.now_ms))

    def run(self, ms: int) -> None:
        """Let time pass; fails if the session wants to be woken again and again without going on."""
        end_ms, wakings = self.now_ms + ms, 0
        while (deadline_ms := self.session.next_deadline()) is not None and deadline_ms <= end_ms:
            wakings += 1
            assert wakings < 1_000, "it does not go on"
            self.now_ms = max(self.now_ms, deadline_ms)
            self.react(self.session.on_deadline(now_ms=self.now_ms))
        self.now_ms = end_ms

    def react(self, changes: Changes) -> None:
        self.changes.append(changes)
        for effect in changes.effects:
            match effect:
                case Dial(line, address):
                    self.dialled[line] = address
                case HangUp(line, last_words):
                    self.said.setdefault(line, []).extend(last_words)
                    if not self.is_slow:
                        self.lose(line)
                case Abort(line):
                    self.lose(line)
        self.pump()

    def pump(self) -> None:
        for line in self.dialled:
            if line not in self.gone:
                self.said.setdefault(line, []).extend(self.session.take_frames(line, now_ms=self.now_ms))
        self.session.check_invariants()

    def of(self, line: int, kind: type[_Frame]) -> list[_Frame]:
        """What was said on a line, of one kind."""
        return [frame for frame in self.said.get(line, []) if isinstance(frame, kind)]


def subscribed_stage(settings: ClientSettings | None = None, *, durable: str = "") -> tuple[Stage, Inbox]:
    """A session that is up at the old broker, with one subscription in force; its line is the first."""
    stage = Stage(settings=settings)
    stage.welcome(stage.open())
    inbox = stage.session.subscribe(Wanted("TRUE", durable=durable))
    stage.pump()
    assert stage.of(1, Subscribe)
    stage.tell(1, Subscribed(1, "TRUE"))
    return stage, inbox
