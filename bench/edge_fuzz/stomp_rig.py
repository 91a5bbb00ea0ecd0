"""Runs a broker without its shell, for STOMP clients and native ones, as ``StompConnection`` does.

It checks everything that is written to the clients: it is STOMP of their version, and nothing follows an ERROR. What a
peer keeps for its client is checked, too: no input may make that grow without a bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final

from bench.edge_fuzz.oracle import check_words, turn
from bench.edge_fuzz.plausible import OVERLAY
from bench.edge_fuzz.rig import Rig
from bench.fuzzing import Fault
from bench.shapes import STARTED_MS
from penstock.broker.effects import Close, Commit, Effect, Hold, Resume
from penstock.broker.outbox import Outbox
from penstock.broker.settings import BrokerSettings
from penstock.live.slicing import FIRST_FRAME_BYTES_MAX
from penstock.live.stomp_connection import UNREAD_BYTES_MAX, StompDialect
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import Frame
from penstock.protocol.stomp import HEART_BEAT, SERVER_COMMANDS, StompError, StompFrame, StompLimits, StompReader
from penstock.stomp import Rendering, StompPeer, StompSettings
from penstock.system.clock import Clock

__all__ = ["NATIVE_FROM", "StompRig"]

NATIVE_FROM: Final = 4
"""Connections with this number and those above speak Penstock's own protocol."""
_SLOW: Final = 3
"""This connection is not read but when time passes."""
_ANSWERS: Final = StompLimits(
    headers_max=1_000, header_bytes_max=1 << 24, head_bytes_max=1 << 26, body_bytes_max=1 << 26
)
_WEIGHTS: Final = (1, 8, 64, 10_000)
_WATERS: Final = (100, 16 * 1024)
_ROUNDS_MAX: Final = 10_000
_WAKES_MAX: Final = 20_000
_PAUSE_MS: Final = 5
_KEPT_WORDS_MAX: Final = 100_000
_CLIENT_BYTES_MAX: Final = 10 * 1024 * 1024
"""Of one frame of a client that the broker knows: headers, body, and the end."""
_PASSED_MS: Final = 12_000
_UNREAD_BYTES_MAX: Final = 4 * 1024 * 1024
"""What may wait for a client that does not read: what its broker had for it, and answers to what it said meanwhile."""


class _RigClock(Clock):
    """The time of the rig."""

    def __init__(self, rig: Rig) -> None:
        super().__init__()
        self._rig = rig

    def now_ms(self) -> int:
        """The rig's time, once there is a rig."""
        return self._rig.now_ms if hasattr(self, "_rig") else STARTED_MS


class _WatchedPeer(StompPeer):
    """A peer that counts what its client says and asks for, and says whether it keeps too much of it."""

    inputs = 0
    """Frames that were read, and what should have been one."""

    def watch(self) -> None:
        """Begin to watch."""
        self.asked: Counter[str] = Counter()
        """The receipts that the client has asked for and not got."""
        self.wanted: set[str] = set()
        """The subscriptions that the client has asked for."""

    def on_frame(self, frame: StompFrame, *, now_ms: int, wall_ms: int) -> None:
        """Take note of what it asks for."""
        self.inputs += 1
        headers = frame.headers
        if receipt := headers.get("receipt"):
            self.asked[receipt] += 1
        if frame.command == "SUBSCRIBE":
            self.wanted |= {headers.get("id", ""), headers.get("destination", "")}
        super().on_frame(frame, now_ms=now_ms, wall_ms=wall_ms)

    def on_malformed(self, error: StompError) -> None:
        """Count it, too."""
        self.inputs += 1
        super().on_malformed(error)

    def check(self) -> None:
        """Fail if more is kept for the client than there may be."""
        waiting = len(self._waiting)
        _require(waiting <= 1, f"{waiting} frames wait")
        _require(self.unread_bytes <= _UNREAD_BYTES_MAX, f"{self.unread_bytes:,} bytes wait for a client that is slow")
        self.check_invariants()


class _Line:
    """One STOMP connection: what ``StompConnection`` knows of it, and what its client has heard."""

    def __init__(self, number: int, peer: _WatchedPeer, dialect: StompDialect, outbox: Outbox) -> None:
        self.number, self.peer, self.dialect = number, peer, dialect
        self.outbox: Outbox | None = outbox
        self.is_known = self.is_closing = self.is_behind = self.must_wait = False
        self.words = ""
        """What the client has said lately, which may be quoted to it."""
        self.answers = StompReader(_ANSWERS, commands=SERVER_COMMANDS)
        self.heard: list[StompFrame] = []
        """What the client got and its talker has not looked at."""
        self.is_connected = self.is_refused = False
        """Whether it was told CONNECTED, and ERROR."""

    def has_to_wait(self) -> bool:
        return self.must_wait or self.dialect.is_waiting or self._is_unread()

    def _is_unread(self) -> bool:
        control_bytes = 0 if self.outbox is None else self.outbox.control_bytes
        return self.dialect.unread_bytes + control_bytes > UNREAD_BYTES_MAX

    def has_news(self) -> bool:
        is_full = self.dialect.is_full and not self.is_closing
        return self.outbox is not None and (self.outbox.has_control if is_full else bool(self.outbox))


class StompRig(Rig):
    """A broker that serves STOMP, and everything its shell would do for it."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        settings = BrokerSettings(
            name="b1",
            overlay=OVERLAY,
            number=1,
            pubends=("b1.a", "b1.log", "b1.more", "b1.dead"),
            best_effort=("b1.a",),
            dead_letters="b1.dead",
            members=("b1",),
            subscribe_wait_ms=100,
            inquiry_ms=0,
            credit_bytes=rng.choice((3_000, 2**21)),
            client_subscriptions_max=rng.choice((5, 10_000)),
            client_durables_max=rng.choice((1, 1_000)),
        )
        super().__init__(seed, settings)
        self._stomp = StompSettings(
            port=1,
            types=rng.choice(("infer", "infer", "string")),
            transactions_max=rng.choice((2, 16)),
            transaction_bytes=rng.choice((5_000, 2**20)),
            subscriptions_max=rng.choice((4, 10_000)),
            unacknowledged_max=rng.choice((3, 10_000)),
            prefetch=rng.choice((2, 100)),
            deliveries_max=2,
            nack_delay_ms=200,
        )
        self._weight_max, self._water_bytes = rng.choice(_WEIGHTS), rng.choice(_WATERS)
        self._is_slow_to_commit = rng.random() < 0.5
        self._uncommitted: list[int] = []
        self._rendering = Rendering()
        self._lines: dict[int, _Line] = {}
        self._dialled = 0
        self._is_reading_all = False

    @property
    def connections(self) -> list[int]:
        """The open connections."""
        return [*super().connections, *self._lines]

    def connect(self, number: int) -> None:
        """Open a connection."""
        if number >= NATIVE_FROM:
            super().connect(number)
        else:
            self._dialled += 1
            peer = _WatchedPeer(
                self._stomp,
                self._rendering,
                identity=self._dialled.to_bytes(16),
                dead_letters=self.broker.settings.dead_letters,
            )
            peer.watch()
            dialect = StompDialect(peer, StompLimits(headers_max=self._stomp.headers_max), _RigClock(self))
            effects = self.broker.connect(number, now_ms=self.now_ms, is_movable=False)
            self._lines[number] = _Line(number, peer, dialect, self.broker.outbox(number))
            self._carry_out(effects)
        self._settle()

    def hear(self, number: int, data: bytes) -> int:
        """Hand over arriving bytes; return how many frames they contained, and things that should have been one."""
        line = self._lines.get(number)
        if line is None:
            count = super().hear(number, data)
            self._settle()
            return count
        before = line.peer.inputs
        line.words = (line.words + data.decode(errors="replace") + str(data))[-_KEPT_WORDS_MAX:]
        if not line.is_closing:
            line.dialect.add(data)
            if not line.is_behind:
                self._work(line)
        self._settle()
        return line.peer.inputs - before

    def disconnect(self, number: int) -> None:
        """Close a connection."""
        if (line := self._lines.get(number)) is None:
            super().disconnect(number)
        else:
            self._lose(line)
        self._settle()

    def wait(self, passed_ms: int) -> None:
        """Let time pass, and call everybody whose deadline has passed."""
        self._commit_all()
        end_ms = self.now_ms + passed_ms
        for _ in range(_WAKES_MAX):
            self._is_reading_all = True
            self._settle()
            self._is_reading_all = False
            if self.now_ms >= end_ms:
                return
            due = [self.broker.next_deadline(), *(line.peer.next_deadline() for line in self._lines.values())]
            first_ms = min((each for each in due if each is not None), default=end_ms)
            self.now_ms = min(max(first_ms, self.now_ms + _PAUSE_MS), end_ms)
            self._wake()
            self._commit_all()
        raise Fault(f"somebody wants to be woken for ever: {_WAKES_MAX:,} times within {passed_ms:,} ms")

    def end(self) -> None:
        """Have everybody hang up, let time pass, and check that the broker is sound and has forgotten them."""
        self.wait(300)
        self.check()
        for number in self.connections:
            self.disconnect(number)
        self.wait(_PASSED_MS)
        self.check()
        status = self.broker.status()
        left = (status.clients, status.strangers, status.subscriptions)
        _require(left == (0, 0, 0), f"clients, strangers and subscriptions that are left: {left}")

    def heard(self, number: int) -> list[StompFrame]:
        """What a client got since it was looked at the last time."""
        line = self._lines.get(number)
        if line is None:
            return []
        heard, line.heard = line.heard, []
        return heard

    # As a connection does.

    def _work(self, line: _Line) -> None:
        """Handle received data slice by slice."""
        dialect = line.dialect
        if line.has_to_wait():
            line.is_behind = True
            return
        line.is_behind = False
        while not line.is_closing:
            with turn():
                found = dialect.take(self._weight_max)
            if found.frames:
                self._tell(line, found.frames)
            elif line.is_known and dialect.unfinished_bytes:
                self.broker.progress(line.number, dialect.unfinished_bytes, now_ms=self.now_ms)
            line.peer.check()
            if line.has_to_wait():
                line.is_behind = True
                break
            if found.is_last:
                bytes_max = _CLIENT_BYTES_MAX if line.is_known else FIRST_FRAME_BYTES_MAX
                _require(dialect.unfinished_bytes <= bytes_max, f"{dialect.unfinished_bytes:,} bytes of one frame wait")
                break
        if dialect.problem:
            check_words(dialect.problem, besides=line.words)
            dialect.problem = ""
            self._carry_out(self.broker.disconnect(line.number, now_ms=self.now_ms))

    def _tell(self, line: _Line, frames: list[Frame]) -> None:
        """Say something to the broker."""
        broker = self.broker
        try:
            with turn():
                broker.hear(line.number, frames, now_ms=self.now_ms)
        except ProtocolError as error:
            check_words(str(error), besides=line.words)
            self._write(line, line.dialect.farewell("protocol", str(error)))
            line.outbox, line.is_closing = None, True
            self._carry_out(broker.disconnect(line.number, now_ms=self.now_ms))
            return
        if not line.is_known:
            self._carry_out(broker.finish(now_ms=self.now_ms))
            if broker.knows(line.number):
                line.is_known = True
                line.dialect.know()

    def _flush(self, line: _Line) -> bool:
        """Write what waits; only if nothing does, hear what the broker has to say. Returns whether it was busy."""
        dialect = line.dialect
        if line.number == _SLOW and not self._is_reading_all:
            return False
        is_busy = False
        if not dialect.has_bytes and line.has_news():
            assert line.outbox is not None
            is_full = dialect.is_full and not line.is_closing
            take = line.outbox.take_control if is_full else line.outbox.take
            is_busy = True
            with turn():
                dialect.hear(take(self._water_bytes))
        if data := dialect.take_bytes(self._water_bytes):
            is_busy = True
            self._write(line, data)
        if frames := dialect.take_frames():
            is_busy = True
            if line.outbox is not None:
                self._tell(line, frames)
        line.peer.check()
        if dialect.is_over:
            line.is_closing = True
        if line.is_closing and not dialect.has_bytes and not line.has_news():
            self._lose(line)
            return True
        if line.is_behind and not line.has_to_wait() and not line.is_closing:
            is_busy = True
            self._work(line)
        return is_busy

    def _lose(self, line: _Line) -> None:
        """The connection is gone."""
        del self._lines[line.number]
        last_words = line.dialect.on_gone()
        if last_words and line.outbox is not None:
            self._tell(line, last_words)
        effects = self.broker.finish(now_ms=self.now_ms)
        if not line.is_closing:
            effects = [*effects, *self.broker.disconnect(line.number, now_ms=self.now_ms)]
        self._carry_out(effects)
        _require(line.number not in self.broker.connections.peers, "the broker still has a connection that is gone")

    def _settle(self) -> None:
        """Have everybody hear and answer, until nobody has anything to say."""
        for _ in range(_ROUNDS_MAX):
            self._carry_out(self.broker.finish(now_ms=self.now_ms))
            # Each of them has its turn, whether or not another one had something to say.
            if not [line for line in list(self._lines.values()) if self._flush(line)]:
                return
        raise Fault("peers and broker do not come to an end")

    def _wake(self) -> None:
        deadline_ms = self.broker.next_deadline()
        if deadline_ms is not None and deadline_ms <= self.now_ms:
            with turn():
                effects = self.broker.on_deadline(now_ms=self.now_ms)
            self._carry_out(effects)
        for line in list(self._lines.values()):
            due_ms = line.peer.next_deadline()
            if due_ms is not None and due_ms <= self.now_ms:
                line.dialect.on_deadline()
                if line.outbox is not None and (frames := line.dialect.take_frames()):
                    self._tell(line, frames)

    def _answer(self, effect: Effect) -> Sequence[Effect]:
        if isinstance(effect, Close) and (line := self._lines.get(effect.connection)) is not None:
            line.is_closing = True
            return ()
        if isinstance(effect, Hold | Resume) and (line := self._lines.get(effect.connection)) is not None:
            line.must_wait = isinstance(effect, Hold)
            return ()
        if isinstance(effect, Commit) and self._is_slow_to_commit:
            self._commit(effect)
            self._uncommitted.append(effect.number)
            return ()
        return super()._answer(effect)

    def _commit_all(self) -> None:
        while self._uncommitted:
            self._carry_out(self.broker.committed(self._uncommitted.pop(0), now_ms=self.now_ms))

    # As a client does.

    def _write(self, line: _Line, data: bytes) -> None:
        """Check what a client is told."""
        _require(not line.is_refused, f"after an ERROR comes {data[:100]!r}")
        if data == HEART_BEAT:
            return
        try:
            for frame in line.answers.feed(data):
                _require(not line.is_refused, f"after an ERROR comes a {frame.command}")
                self._check(line, frame)
                line.answers.version = line.peer.version
                line.heard.append(frame)
        except StompError as error:
            raise Fault(f"the broker writes what is no STOMP {line.peer.version}: {error}: {data[:300]!r}") from None

    def _check(self, line: _Line, frame: StompFrame) -> None:
        headers, peer = frame.headers, line.peer
        if frame.command == "ERROR":
            line.is_refused = True
            check_words(f"{headers['message']} {frame.body.decode()}", besides=line.words)
            receipt = headers.get("receipt-id")
            _require(
                receipt is None or receipt in peer.asked, f"an ERROR for receipt {receipt!r}, which nobody asked for"
            )
        elif frame.command == "CONNECTED":
            _require(not line.is_connected, "a second CONNECTED")
            _require(headers["version"] == peer.version, f"CONNECTED has version {headers['version']}")
            line.is_connected = True
        else:
            _require(line.is_connected, f"a {frame.command} before CONNECTED")
            if frame.command == "RECEIPT":
                receipt = headers["receipt-id"]
                _require(peer.asked[receipt] > 0, f"receipt {receipt!r}, which nobody asked for")
                peer.asked[receipt] -= 1
            else:
                _require(headers["subscription"] in peer.wanted, f"a message for {headers['subscription']!r}")


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Fault(otherwise)
