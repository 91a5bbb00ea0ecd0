"""Runs a broker without its shell: connections are numbers, the store is a dictionary, and the test sets the time.

It checks everything that the broker says and asks for: words, sizes of frames, and whether a store could keep it.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import msgspec

from bench.edge_fuzz.oracle import check_words, turn
from bench.edge_fuzz.plausible import OVERLAY
from bench.fuzzing import Fault
from bench.shapes import STARTED_MS
from penstock.broker.broker import Broker
from penstock.broker.durable import Append, KeepRecord, Trim
from penstock.broker.effects import Close, Commit, Effect, Operate, ReadKept, ReadLog, Record
from penstock.broker.settings import BrokerSettings
from penstock.protocol import frames as f
from penstock.protocol.codec import FRAME_BYTES_MAX, FrameReader, encode_frame
from penstock.protocol.errors import ProtocolError

__all__ = ["Rig"]

_STORED_MAX: Final = 2**63 - 1
"""The largest number that the store can keep."""
_TAKEN_BYTES: Final = 1 << 24
_SETTINGS: Final = BrokerSettings(
    name="b1",
    overlay=OVERLAY,
    number=1,
    pubends=("b1.a", "b1.log"),
    best_effort=("b1.a",),
    neighbours=("b2", "b3"),
    members=("b1", "b2", "b3"),
    subscribe_wait_ms=100,
)


class Rig:
    """A broker, and everything its shell would do for it."""

    def __init__(self, seed: int, settings: BrokerSettings = _SETTINGS) -> None:
        self.broker = Broker(settings, incarnation=1, rng=Random(seed))
        self.now_ms = STARTED_MS
        self._readers: dict[int, FrameReader] = {}
        self._said: dict[int, str] = {}
        """What each peer has said last, which may be quoted to it."""
        self._log: dict[str, list[tuple[int, bytes]]] = {}
        self._kept: dict[str, bytes] = {}
        self.welcomed: dict[int, tuple[int, int]] = {}
        """The numbers of publisher and broker that each client was given, by connection."""

    @property
    def connections(self) -> list[int]:
        """The open connections."""
        return list(self._readers)

    def connect(self, number: int) -> None:
        """Open a connection."""
        self._readers[number] = FrameReader()
        self._carry_out(self.broker.connect(number, now_ms=self.now_ms))

    def hear(self, number: int, data: bytes) -> int:
        """Hand over arriving bytes; return how many frames they contained."""
        reader = self._readers.get(number)
        if reader is None:
            return 0
        frames: list[f.Frame] = []
        try:
            with turn():
                frames.extend(reader.feed(data))
        except ProtocolError as error:
            check_words(str(error), besides=str(data))
            self._hand_on(number, frames, data)
            self.disconnect(number)
            return len(frames) + 1
        self._hand_on(number, frames, data)
        return len(frames)

    def disconnect(self, number: int) -> None:
        """Close a connection."""
        if self._readers.pop(number, None) is not None:
            self._carry_out(self.broker.disconnect(number, now_ms=self.now_ms))

    def wait(self, passed_ms: int) -> None:
        """Let time pass, and call the broker if a deadline has passed."""
        self.now_ms += passed_ms
        deadline_ms = self.broker.next_deadline()
        if deadline_ms is not None and deadline_ms <= self.now_ms:
            with turn():
                effects = self.broker.on_deadline(now_ms=self.now_ms)
            self._carry_out(effects)

    def end(self) -> None:
        """Let time pass, and check that the broker is sound."""
        self.wait(10_000)
        self.check()

    def check(self) -> None:
        """Fail if the broker contradicts itself, or cannot even report its status."""
        self.broker.check_invariants()
        msgspec.json.encode(self.broker.status())

    def _hand_on(self, number: int, frames: list[f.Frame], data: bytes) -> None:
        if not frames:
            return
        self._said[number] = str(data)
        try:
            with turn():
                effects = self.broker.receive(number, frames, now_ms=self.now_ms)
        except ProtocolError as error:
            check_words(str(error), besides=str(data))
            self.disconnect(number)
            return
        self._carry_out(effects)

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        """Carry out effects as a shell does, but at once."""
        waiting = list(effects)
        while waiting:
            answers: list[Effect] = []
            for effect in waiting:
                answers += self._answer(effect)
            waiting = answers
        for number in list(self._readers):
            self._listen(number)

    def _answer(self, effect: Effect) -> Sequence[Effect]:
        broker, now_ms = self.broker, self.now_ms
        if isinstance(effect, Close):
            self._listen(effect.connection)
            self._readers.pop(effect.connection, None)
        elif isinstance(effect, Commit):
            self._commit(effect)
            return broker.committed(effect.number, now_ms=now_ms)
        elif isinstance(effect, ReadLog):
            found = [each for each in self._log.get(effect.pubend, ()) if effect.first <= each[0] <= effect.last]
            return broker.log_read(effect.number, found, effect.last, now_ms=now_ms)
        elif isinstance(effect, ReadKept):
            values = {name: self._kept.get(name) for name in effect.names}
            return broker.kept_read(effect.number, values, now_ms=now_ms)
        elif isinstance(effect, Operate):
            return broker.operated(effect.fence, now_ms=now_ms)
        elif isinstance(effect, Record):
            check_words(" ".join(str(value) for _, value in effect.fields), besides=" ".join(self._said.values()))
        return ()

    def _commit(self, commit: Commit) -> None:
        for change in commit.changes:
            if isinstance(change, Append):
                numbers = [*change.sequences.values(), *(tick for tick, _ in change.messages), change.lease or 0]
                if any(not -_STORED_MAX - 1 <= each <= _STORED_MAX for each in numbers):
                    raise Fault(f"the store is asked to keep a number beyond 64 bits: {max(numbers)}")
                self._log.setdefault(change.pubend, []).extend(change.messages)
            elif isinstance(change, Trim):
                kept = [each for each in self._log.get(change.pubend, ()) if each[0] >= change.below_tick]
                self._log[change.pubend] = kept
            elif isinstance(change, KeepRecord):
                if change.value is None:
                    self._kept.pop(change.name, None)
                else:
                    self._kept[change.name] = change.value

    def _listen(self, number: int) -> None:
        """Check that the broker only sends frames that its peers can accept."""
        try:
            outbox = self.broker.outbox(number)
        except KeyError:
            return
        for frame in outbox.take(_TAKEN_BYTES) if outbox else ():
            size = len(encode_frame(frame)) - 4
            if size > FRAME_BYTES_MAX:
                raise Fault(f"the broker says a {type(frame).__name__} of {size:,} bytes, which no peer takes")
            if isinstance(frame, f.Welcome):
                self.welcomed[number] = frame.publisher, frame.broker_number
            elif isinstance(frame, f.Goodbye | f.Refused | f.HeldBack):
                check_words(frame.reason, besides=self._said.get(number, ""))
