"""The clients of ``stomp-kill9``: producers and consumers that lose their broker and go on at any other one.

They know of the brokers what a STOMP client knows: ports, and what comes in frames. A producer sends again what had no
receipt when its connection ended. A consumer forgets what it had then, and works on what comes again.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from penstock.lab.stomp.judge import Ledger
from penstock.lab.stomp.line import Line
from penstock.lab.stomp.plan import QUEUE, TOPIC
from penstock.protocol.stomp import StompFrame

__all__ = ["Listener", "Producer", "StompClient", "Watcher", "Worker", "body_of"]

_INTERNAL: Final = "internal"
_RETRY_S: Final = 0.05
_GREETING_S: Final = 10.0
"""How long a broker may take to let a client in; then the client tries another one."""
_WINDOW: Final = 100
"""How many SENDs of a producer may wait for receipts."""
_WORK_S: Final = (0.0, 0.05)
"""How long a consumer has a message before it acknowledges it."""
_REFUSED: Final = 0.02
"""The share of first attempts that workers refuse with NACK."""
_PREFETCH: Final = 40
_TOGETHER: Final = 3
"""How many ACKs make a transaction."""
_GATHER_S: Final = 0.2
"""How long ACKs wait for others to make a transaction with."""


@dataclass(slots=True, frozen=True)
class _Received:
    """A MESSAGE frame."""

    item: str
    attempt: int
    ack: str
    """Its header of that name."""
    pubend: str


class StompClient:
    """What all clients share: they connect to any broker, again and again."""

    def __init__(self, name: str, ports: Sequence[int], rng: Random, ledger: Ledger) -> None:
        self.name: Final = name
        self.errors: Counter[str] = Counter()
        """What brokers said in ERROR frames."""
        self.bugs = 0
        """How many of these are faults of a broker."""
        self.connections = 0
        self.is_ready = asyncio.Event()
        """Whether the client has been let in once, and a consumer has its subscription."""
        self._ports, self._rng, self._ledger = tuple(ports), rng, ledger
        self._line: Line | None = None

    async def run(self) -> None:
        """Connect until cancelled."""
        while True:
            try:
                line = await Line.open(self._rng.choice(self._ports), self)
            except OSError:
                await asyncio.sleep(_RETRY_S)
                continue
            greeting = asyncio.get_running_loop().call_later(_GREETING_S, line.abort)
            line.send("CONNECT", {"accept-version": "1.2", "host": "penstock", "login": self.name} | self._identity())
            try:
                await line.ended
            finally:
                greeting.cancel()
                line.abort()
                self._line = None
                self._on_ended()
            await asyncio.sleep(_RETRY_S)

    def cut(self) -> None:
        """Have the connection end without a word."""
        if self._line is not None:
            self._line.abort()

    def on_frame(self, line: Line, frame: StompFrame) -> None:
        """The broker sent a frame."""
        match frame.command:
            case "CONNECTED":
                self._line = line
                self.connections += 1
                self._on_connected(line)
            case "RECEIPT":
                self._on_receipt(frame.headers["receipt-id"])
            case "MESSAGE":
                self._on_message(line, frame)
            case _:
                self.errors[frame.headers.get("message", "")] += 1
                self.bugs += frame.headers.get("penstock-code") == _INTERNAL

    def _identity(self) -> dict[str, str]:
        return {}

    def _on_connected(self, line: Line) -> None:
        """Begin to work on a connection."""
        raise NotImplementedError

    def _on_receipt(self, receipt: str) -> None:
        """A receipt came."""
        raise NotImplementedError

    def _on_message(self, line: Line, frame: StompFrame) -> None:
        """A message came; most clients have asked for none."""
        del line
        self._ledger.strange.append(f"message {frame.headers.get('item')} for {self.name}")

    def _on_ended(self) -> None:
        """The connection is gone."""
        raise NotImplementedError


class Producer(StompClient):
    """Sends messages to the queue and to the topic in turn, each with a receipt."""

    def __init__(self, name: str, ports: Sequence[int], rng: Random, ledger: Ledger) -> None:
        super().__init__(name, ports, rng, ledger)
        self.resent = 0
        """SENDs that repeated others."""
        self._count = 0
        self._waiting: deque[tuple[int, int]] = deque()
        """Messages to be sent, by number and copy."""
        self._sent: dict[str, tuple[int, int]] = {}
        """Those that wait for their receipts, by item."""

    @property
    def is_settled(self) -> bool:
        """Whether everything that it wanted to send has a receipt."""
        return not self._waiting and not self._sent

    def produce(self, count: int) -> None:
        """Send so many more messages."""
        for _ in range(count):
            self._waiting.append((self._count, 0))
            self._count += 1
        self._send()

    def _on_connected(self, line: Line) -> None:
        del line
        self.is_ready.set()
        self._send()

    def _on_receipt(self, receipt: str) -> None:
        if self._sent.pop(receipt, None) is None:
            self._ledger.strange.append(f"receipt {receipt}")
            return
        self._ledger.on_receipt(receipt)
        self._send()

    def _on_ended(self) -> None:
        again = [(number, copy + 1) for number, copy in self._sent.values()]
        self._sent.clear()
        self.resent += len(again)
        self._waiting.extendleft(reversed(again))

    def _send(self) -> None:
        line = self._line
        while line is not None and line.is_open and self._waiting and len(self._sent) < _WINDOW:
            number, copy = self._waiting.popleft()
            message = f"{self.name}/{number}"
            item = f"{message}/{copy}"
            is_work = number % 2 == 0
            self._ledger.on_sent(item, message, is_work=is_work)
            self._sent[item] = number, copy
            headers = {"destination": f"/queue/{QUEUE}" if is_work else TOPIC, "item": item, "receipt": item}
            line.send("SEND", headers, body_of(item))


class Worker(StompClient):
    """A consumer of the queue that acknowledges every message by itself, or some in a transaction."""

    def __init__(
        self, name: str, ports: Sequence[int], rng: Random, ledger: Ledger, *, has_transactions: bool = False
    ) -> None:
        super().__init__(name, ports, rng, ledger)
        self._reader = QUEUE
        self._refused = _REFUSED
        self._has_transactions = has_transactions
        self._asked: dict[str, list[_Received]] = {}
        """What was acknowledged and has no receipt yet, by receipt."""
        self._gathered: dict[str, list[_Received]] = {}
        """What is to be acknowledged together, by pubend: a transaction is one pubend's."""
        self._serial = 0

    @property
    def is_answered(self) -> bool:
        """Whether every ACK has its receipt, or none will come."""
        return not self._asked and not any(self._gathered.values())

    def _on_connected(self, line: Line) -> None:
        line.send("SUBSCRIBE", {**self._subscription(), "id": "0", "ack": "client-individual", "receipt": "ready"})

    def _subscription(self) -> dict[str, str]:
        return {"destination": f"/queue/{QUEUE}", "prefetch-count": str(_PREFETCH)}

    def _on_receipt(self, receipt: str) -> None:
        if receipt == "ready":
            self.is_ready.set()
            return
        together = self._asked.pop(receipt, None)
        if together is None:
            self._ledger.strange.append(f"receipt {receipt}")
            return
        for received in together:
            self._ledger.on_acked(self._reader, received.item, received.attempt)

    def _on_message(self, line: Line, frame: StompFrame) -> None:
        headers = frame.headers
        name = headers.get("item", "")
        attempt = int(headers.get("penstock-attempt", "1"))
        if not self._ledger.on_message(self._reader, name, headers["message-id"], attempt):
            return
        if frame.body != body_of(name):
            self._ledger.strange.append(name)
        received = _Received(name, attempt, headers["ack"], headers["penstock-pubend"])
        asyncio.get_running_loop().call_later(self._rng.uniform(*_WORK_S), self._finish, line, received)

    def _on_ended(self) -> None:
        self._asked.clear()
        self._gathered.clear()

    def _finish(self, line: Line, received: _Received) -> None:
        if not self._is_mine(line):
            return
        if received.attempt == 1 and self._rng.random() < self._refused:
            line.send("NACK", {"id": received.ack})
        elif self._has_transactions:
            self._gather(line, received)
        else:
            line.send("ACK", {"id": received.ack, "receipt": self._ask([received])})

    def _gather(self, line: Line, received: _Received) -> None:
        gathered = self._gathered.setdefault(received.pubend, [])
        gathered.append(received)
        if len(gathered) == _TOGETHER:
            self._commit(line, received.pubend)
        elif len(gathered) == 1:
            asyncio.get_running_loop().call_later(_GATHER_S, self._commit, line, received.pubend)

    def _commit(self, line: Line, pubend: str) -> None:
        if not self._is_mine(line) or not self._gathered.get(pubend):
            return
        together = self._gathered.pop(pubend)
        receipt = self._ask(together)
        line.send("BEGIN", {"transaction": receipt})
        for received in together:
            line.send("ACK", {"id": received.ack, "transaction": receipt})
        line.send("COMMIT", {"transaction": receipt, "receipt": receipt})

    def _is_mine(self, line: Line) -> bool:
        """Whether a connection is the one that this client has now."""
        return line is self._line and line.is_open

    def _ask(self, together: list[_Received]) -> str:
        self._serial += 1
        receipt = f"{self.name}-{self._serial}"
        self._asked[receipt] = together
        for received in together:
            self._ledger.on_try(self._reader, received.item)
        return receipt


class _Order:
    """Sees to it that positions ascend on one connection."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._ticks: dict[str, int] = {}
        """The highest position that came, by pubend."""

    def check(self, frame: StompFrame) -> None:
        """A message came."""
        pubend, tick = frame.headers["penstock-pubend"], int(frame.headers["penstock-tick"])
        self._ledger.reordered += tick <= self._ticks.get(pubend, -1)
        self._ticks[pubend] = tick

    def begin_again(self) -> None:
        """There is another connection."""
        self._ticks.clear()


class Listener(StompClient):
    """A plain subscriber to the topic: it misses what is sent while it has no connection, and gets nothing twice."""

    def __init__(self, name: str, ports: Sequence[int], rng: Random, ledger: Ledger) -> None:
        super().__init__(name, ports, rng, ledger)
        self._order = _Order(ledger)
        self.heard = 0
        """Messages that came."""

    def _on_connected(self, line: Line) -> None:
        line.send("SUBSCRIBE", {"destination": TOPIC, "id": "0", "receipt": "ready"})

    def _on_receipt(self, receipt: str) -> None:
        assert receipt == "ready", receipt
        self.is_ready.set()

    def _on_message(self, line: Line, frame: StompFrame) -> None:
        del line
        name = frame.headers.get("item", "")
        self.heard += 1
        if name not in self._ledger.items or frame.body != body_of(name):
            self._ledger.strange.append(name)
        self._order.check(frame)

    def _on_ended(self) -> None:
        self._order.begin_again()


class Watcher(Worker):
    """A durable subscriber to the topic."""

    def __init__(self, name: str, ports: Sequence[int], rng: Random, ledger: Ledger) -> None:
        super().__init__(name, ports, rng, ledger)
        self._reader = name
        # Nobody else could get what it refuses: NACK is the same as ACK here.
        self._refused = 0.0
        self._order = _Order(ledger)

    def _identity(self) -> dict[str, str]:
        return {"client-id": self.name}

    def _subscription(self) -> dict[str, str]:
        return {"destination": TOPIC, "activemq.subscriptionName": "news"}

    def _on_message(self, line: Line, frame: StompFrame) -> None:
        self._order.check(frame)
        super()._on_message(line, frame)

    def _on_ended(self) -> None:
        super()._on_ended()
        self._order.begin_again()


def body_of(item: str) -> bytes:
    r"""The body of an item: one that only a reader of ``content-length`` reads whole.

    >>> body_of("p1/0/0")
    b'p1/0/0\x00of this item\n'
    """
    return item.encode() + b"\0of this item\n"
