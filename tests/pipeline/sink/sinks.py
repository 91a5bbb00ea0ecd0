"""What the tests of the sink share: a broker in memory that recognises what it has, and files that can break."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from penstock.model.message import Message
from penstock.pipeline.lake.files import LocalFiles
from penstock.pipeline.sink.staging import Staged, write_rows


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
    """A pubend with the memory of one: the highest number of each publisher."""

    overlay: str = "demo"
    fuse: Fuse = field(default_factory=Fuse)
    log: list[Message] = field(default_factory=list)
    numbers: dict[bytes, int] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)
    repeated: int = 0
    connections: int = 0

    @contextmanager
    def opening(self, identity: bytes, published: int) -> Iterator[FakePublishing]:
        self.connections += 1
        yield FakePublishing(self, identity, published)


@dataclass
class FakePublishing:
    broker: FakeBroker
    identity: bytes
    published: int

    @property
    def overlay(self) -> str:
        return self.broker.overlay

    @overlay.setter
    def overlay(self, name: str) -> None:
        self.broker.overlay = name

    def publish(self, messages: Sequence[Message]) -> None:
        broker = self.broker
        broker.fuse.step()
        if broker.failures:
            raise broker.failures.pop()
        for place, message in enumerate(messages):
            # A process may end with any part of a frame on the wire.
            if place == len(messages) // 2:
                broker.fuse.step()
            self.published += 1
            if self.published > broker.numbers.get(self.identity, 0):
                broker.numbers[self.identity] = self.published
                broker.log.append(message)
            else:
                broker.repeated += 1
        broker.fuse.step()


def messages(first: int, count: int) -> list[Message]:
    return [Message({"number": number}, b"x" * 100) for number in range(first, first + count)]


def staged(root: Path, folder: str, parts: Sequence[Sequence[Message]], query: str = "") -> list[Staged]:
    return [Staged(write_rows(part, root, folder), query) for part in parts]


def numbers(found: Sequence[Message]) -> list[int]:
    return [int(str(message.attributes["number"])) for message in found]
