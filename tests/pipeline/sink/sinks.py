"""What the tests of the sink share: brokers in memory that recognise what they have, and files that can break."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from penstock.model.message import Message
from penstock.pipeline.lake.files import LocalFiles
from penstock.pipeline.sink.errors import SinkError, SinkOptionError
from penstock.pipeline.sink.publishing import Writer
from penstock.pipeline.sink.staging import Row, Staged, write_rows

PUBEND = "q"
"""The pubend of a test, unless it wants others."""


class Crash(BaseException):
    """The end of a process, at any point; nothing may catch it."""


@dataclass
class Fuse:
    """Burns down with every step, and ends the process at the last one."""

    left: int = -1

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Crash


class FrailFiles(LocalFiles):
    """Files on which every step may be the last."""

    def __init__(self, root: Path, fuse: Fuse) -> None:
        super().__init__(root)
        self._fuse = fuse

    def _write_synced(self, path: Path, content: bytes) -> None:
        self._fuse.step()
        super()._write_synced(path, content)

    def _rename(self, source: Path, target: Path) -> None:
        self._fuse.step()
        super()._rename(source, target)
        self._fuse.step()

    def clear(self, folder: str) -> None:
        self._fuse.step()
        super().clear(folder)


@dataclass
class FakeBroker:
    """An overlay whose pubends have the memory of real ones: the last number of each publisher."""

    overlay: str = "demo"
    fuse: Fuse = field(default_factory=Fuse)
    pubends: set[str] = field(default_factory=lambda: {PUBEND})
    logs: dict[str, list[Message]] = field(default_factory=dict)
    numbers: dict[tuple[str, bytes], int] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    """Messages that are refused, by their attribute ``number``."""
    repeated: int = 0
    connections: int = 0

    @property
    def log(self) -> list[Message]:
        return self.logs.get(PUBEND, [])

    @contextmanager
    def opening(self, writer: Writer) -> Iterator[FakePublishing]:
        self.connections += 1
        self.fuse.step()
        if writer.overlay not in ("", self.overlay):
            raise SinkError(f"this is overlay {self.overlay}, not {writer.overlay}")
        for pubend in writer.published:
            if pubend not in self.pubends:
                raise SinkOptionError(f"no pubend {pubend}")
        yield FakePublishing(self, writer.identity, dict(writer.published))


@dataclass
class FakePublishing:
    broker: FakeBroker
    identity: bytes
    published: dict[str, int]
    stopped: set[str] = field(default_factory=set)

    @property
    def overlay(self) -> str:
        return self.broker.overlay

    @overlay.setter
    def overlay(self, name: str) -> None:
        self.broker.overlay = name

    def publish(self, rows: Sequence[Row]) -> None:
        broker = self.broker
        broker.fuse.step()
        if broker.failures:
            raise broker.failures.pop()
        for place, (pubend, message) in enumerate(rows):
            # A process may end with any part of a frame on the wire.
            if place == len(rows) // 2:
                broker.fuse.step()
            if message.attributes["number"] in broker.refused:
                self.stopped.add(pubend)
            # A refusal stops its own pubend only: the others have rows of the same chunk.
            if pubend not in self.stopped:
                self._take(pubend, message)
        if self.stopped:
            raise SinkError(f"{', '.join(sorted(self.stopped))} refuses")
        broker.fuse.step()

    def _take(self, pubend: str, message: Message) -> None:
        broker, key = self.broker, (pubend, self.identity)
        number = self.published[pubend] = self.published[pubend] + 1
        known = broker.numbers.get(key, 0)
        assert number <= known + 1, f"message {number} to {pubend} follows message {known}"
        if number > known:
            broker.numbers[key] = number
            broker.logs.setdefault(pubend, []).append(message)
        else:
            assert broker.logs[pubend][number - 1] == message, f"number {number} of {pubend} is another message now"
            broker.repeated += 1


def messages(first: int, count: int) -> list[Message]:
    return [Message({"number": number}, b"x" * 100) for number in range(first, first + count)]


def rows(first: int, count: int, pubends: Sequence[str] = (PUBEND,)) -> list[Row]:
    """Rows for these pubends in turn."""
    return [Row(pubends[place % len(pubends)], message) for place, message in enumerate(messages(first, count))]


def staged(root: Path, folder: str, parts: Sequence[Sequence[Row]], query: str = "") -> list[Staged]:
    return [Staged(write_rows(part, root, folder), query) for part in parts]


def numbers(found: Sequence[Message]) -> list[int]:
    return [int(str(message.attributes["number"])) for message in found]
