"""Plays STOMP clients that say mostly what belongs, some odd things, and now and then what is no STOMP at all."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Final

from bench.fuzzing import any_condition, any_noise
from bench.shapes import STARTED_MS
from penstock.protocol import frames as f
from penstock.protocol.codec import encode_frame
from penstock.protocol.stomp import SERVER_COMMANDS, StompFrame, Version

__all__ = ["StompTalker", "stomp_damaged", "stomp_parts"]

_TOPICS: Final = ("/topic/a", "/topic/a", "/topic/b.c", "/topic/a.b.c")
_QUEUES: Final = ("/queue/w", "/queue/w", "/queue/v")
_PATTERNS: Final = ("/topic/*", "/topic/>", "/topic/b.*", "/topic/a.>", "/topic/*.*.c")
_ODD_PLACES: Final = (
    *("", "/", "/topic/", "topic/a", "/exchange/a", "/topic/a.>.b", "/topic/*.>", "/queue/a b", "/topic/%_!'"),
    *("/topic/" + 300 * "x", "/queue/é", "/pubend/é", "/topic/\x1b[2J", "/queue/" + 240 * "q"),
)
_SELECTORS: Final = ("n > 1", "n < 3", "x = 'S'", "\"correlation-id\" = '7' OR n BETWEEN 1 AND 2", "[n,>,1]", "TRUE")
_ACKS: Final = ("auto", "client", "client-individual")
_VALUES: Final = (
    "1",
    "2",
    "1.5",
    "true",
    "S",
    "",
    "007",
    "-0",
    "nan",
    "1e5",
    "é\U0001f600",
    "a b",
    "9" * 19,
    "9" * 400,
)
_ODD: Final = ("", "-1", "0", "x" * 300, "9" * 30, "\u0663", "a\rb", "a\nb", "\\", "a:b", "\x1b[2J", " s ", "x" * 5_000)
_EOLS: Final = (b"\r\n", b"\r\n", b"\r\n", b"\r", b"\n\r")
_WEBSITE: Final = b"GET / HTTP/1.1\r\nHost: broker\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
_TLS_HELLO: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
_HINTS: Final = {
    "int": ("1", "-5", "+7"),
    "float": ("1", "1.50", "2e3"),
    "bool": ("true", "false"),
    "string": ("1", "x"),
}
_HEARD_MAX: Final = 50
_HOUR_MS: Final = 3_600_000
_Headers = list[tuple[str, str]]


class StompTalker:
    """One peer on a STOMP port; it acknowledges what it really got."""

    def __init__(self, rng: Random, *, pubends: tuple[str, ...] = ("b1.log", "b1.log", "b1.more", "b1.a")) -> None:
        self._rng = rng
        self._pubends = pubends
        self._damage_share = rng.choice((0.0, 0.0, 0.0, 0.01, 0.03, 0.2))
        self._odd_share = rng.choice((0.0, 0.0, 0.0, 0.005, 0.02))
        self._version = rng.choice((Version.V1_0, Version.V1_1, Version.V1_2, Version.V1_2))
        self._is_foreign = rng.random() < 0.06
        self._eol = rng.choice(_EOLS) if rng.random() < 0.1 else b"\n"
        self._subscriptions: list[str] = []
        self._transactions: list[str] = []
        self._delivered: deque[dict[str, str]] = deque(maxlen=_HEARD_MAX)
        """The headers of messages that wait for an ACK."""
        self._has_name = False
        """Whether it has a name under which it can have durable subscriptions."""
        self._count = 0

    def hear(self, frame: StompFrame) -> None:
        """Take note of a frame from the broker."""
        if frame.command == "MESSAGE" and "ack" in frame.headers:
            self._delivered.append(frame.headers)

    def opening(self) -> bytes:
        """CONNECT, in one of the many ways that there are."""
        rng = self._rng
        if self._is_foreign or rng.random() < 0.03:
            return self.part()
        headers: _Headers = [("host", "broker")] if rng.random() < 0.8 else []
        accepted = {Version.V1_0: ("1.0", ""), Version.V1_1: ("1.1", "1.0,1.1"), Version.V1_2: ("1.2", "1.0,1.1,1.2")}
        if self._version is not Version.V1_0 or rng.random() < 0.5:
            headers.append(("accept-version", rng.choice(accepted[self._version]) or "1.0"))
        login = rng.choice(("mallory", "mallory", "eve", ""))
        headers.append(("login", login))
        if rng.random() < 0.4:
            headers.append(("client-id", rng.choice(("mallory", "office"))))
        self._has_name = bool(login) or headers[-1][0] == "client-id"
        if rng.random() < 0.4:
            headers.append(("heart-beat", rng.choice(("0,0", "1000,1000", "0,500", "20000,0", "1,1", "0,99999999999"))))
        if rng.random() < 0.1:
            headers.append(
                (rng.choice(("passcode", "accept-version", "heart-beat", "client-id", "x")), rng.choice(_ODD))
            )
        command = "CONNECT" if rng.random() < 0.8 else "STOMP"
        return self._maybe_damaged(self._encoded(command, headers, is_escaped=False))

    def part(self) -> bytes:
        """One more frame, or what is instead of one."""
        rng = self._rng
        if self._is_foreign:
            return _foreign(rng)
        kind = rng.random()
        if kind < self._odd_share / 5:
            return _foreign(rng)
        if kind < 0.03:
            return rng.choice((b"\n", b"\r\n", b"\n\n\n", b"\r"))
        makers = (
            *(self._send, self._send, self._send, self._send, self._send, self._send),
            *(self._subscribe, self._subscribe, self._subscribe),
            *(self._judge, self._judge, self._judge, self._judge),
            *(self._begin, self._end, self._unsubscribe),
        )
        return self._maybe_damaged(rng.choice(makers)() if kind < 0.985 else self._rare())

    # What clients say.

    def _send(self) -> bytes:
        rng = self._rng
        place = self._destination((*_TOPICS, *_TOPICS, *_QUEUES, f"/pubend/{self._pubend()}"))
        headers: _Headers = [("destination", place)]
        headers += [("n", str(rng.randrange(5)))] if rng.random() < 0.5 else []
        if rng.random() < 0.2:
            kind = rng.choice([*_HINTS])
            headers.append((f"v;type={kind}", rng.choice(_VALUES if self._is_odd() else _HINTS[kind])))
        if rng.random() < 0.2:
            names = (
                "x",
                "reply-to",
                "correlation-id",
                "type",
                "content-type",
                "é",
                "a:b",
                "a\nb",
                "a\\b",
                "persistent",
            )
            headers.append((rng.choice(names), rng.choice(_VALUES[:-1])))
        if self._is_odd():
            headers.append(
                (rng.choice(("$x", ";type=", "n;type=x", "n;type=int", "id", "x" * 300)), rng.choice(_VALUES))
            )
        if rng.random() < 0.1:
            times = (STARTED_MS, STARTED_MS + 1_000, STARTED_MS + _HOUR_MS, 0)
            headers.append(("expires", str(rng.choice((-1, 10**17, 10**20) if self._is_odd() else times))))
        if rng.random() < 0.1 and not place.startswith("/pubend/"):
            headers.append(("penstock-pubend", self._pubend()))
        body = rng.choice((b"", b"p", b"a body", bytes(3), rng.randbytes(rng.randrange(40)), b"x" * 3_000))
        return self._frame("SEND", headers, body, in_transaction=0.15)

    def _subscribe(self) -> bytes:
        rng = self._rng
        place = self._destination((*_TOPICS, *_QUEUES, *_QUEUES, *_PATTERNS, f"/pubend/{self._pubend()}"))
        is_queue = place.startswith("/queue/") and not self._is_odd()
        headers: _Headers = [("destination", place)]
        if self._version is not Version.V1_0 or rng.random() < 0.7:
            self._count += not self._is_odd()
            headers.append(("id", f"s{self._count}"))
        self._subscriptions = [*self._subscriptions, headers[-1][1]][-8:]
        headers.append(("ack", rng.choice(_ACKS)))
        if rng.random() < 0.25 and not is_queue:
            headers.append(("selector", self._selector()))
        if rng.random() < 0.25 and not is_queue and (self._has_name or self._is_odd()):
            headers.append(rng.choice((("activemq.subscriptionName", rng.choice(("d1", "d2"))), ("durable", "true"))))
        if rng.random() < 0.2:
            headers.append(
                (rng.choice(("prefetch-count", "activemq.prefetchSize")), rng.choice(("1", "2", "0", "99999")))
            )
        if rng.random() < 0.15:
            start = ("penstock-start", rng.choice(("earliest", "latest")))
            headers.append(rng.choice((start, ("penstock-missing", rng.choice(("fail", "earliest", "latest"))))))
        return self._frame("SUBSCRIBE", headers)

    def _selector(self) -> str:
        rng = self._rng
        kind = rng.random()
        if kind < 0.7:
            return rng.choice(_SELECTORS)
        return _telling(any_noise(rng) if self._is_odd() else any_condition(rng, 3))

    def _judge(self) -> bytes:
        """Mostly for a message that it has; a message that it has judged already is not named again so often."""
        rng, delivered = self._rng, self._delivered
        if not delivered:
            return self._frame("ACK", [("id", "1-1"), ("message-id", "x")]) if self._is_odd() else self._send()
        place = rng.randrange(len(delivered))
        told = delivered[place]
        if not self._is_odd():
            # Those before it count as acknowledged, too, in one of the modes.
            before = [each for each in delivered if each["subscription"] == told["subscription"]]
            for each in before[: before.index(told) + 1]:
                delivered.remove(each)
        if self._version is Version.V1_2:
            headers = [("id", told["ack"])]
        else:
            headers = [("message-id", told["message-id"]), ("subscription", told["subscription"])]
        command = "ACK" if self._version is Version.V1_0 or rng.random() < 0.7 else "NACK"
        return self._frame(command, headers, in_transaction=0.2)

    def _begin(self) -> bytes:
        name = self._rng.choice("tuvw")
        if name in self._transactions and not self._is_odd():
            return self._end()
        self._transactions.append(name)
        return self._frame("BEGIN", [("transaction", name)])

    def _end(self) -> bytes:
        if not self._transactions:
            return self._send()
        name = self._transactions.pop(self._rng.randrange(len(self._transactions)))
        return self._frame(self._rng.choice(("COMMIT", "COMMIT", "ABORT")), [("transaction", name)])

    def _unsubscribe(self) -> bytes:
        rng = self._rng
        if not self._subscriptions:
            return self._subscribe()
        name = self._subscriptions.pop(rng.randrange(len(self._subscriptions)))
        headers: _Headers = [("id", name)]
        if self._version is Version.V1_0 and name.startswith("/"):
            headers = [("destination", name)]
        if rng.random() < 0.2 and self._has_name:
            headers.append(rng.choice((("activemq.subscriptionName", rng.choice(("d1", "d2"))), ("durable", "true"))))
        return self._frame("UNSUBSCRIBE", headers)

    def _rare(self) -> bytes:
        """The end, what servers say, a second CONNECT, and frames over one limit or another."""
        rng = self._rng
        kind = rng.randrange(9)
        if kind < 3:
            return self._frame("DISCONNECT", [])
        if kind == 3:
            return self._frame(rng.choice((*sorted(SERVER_COMMANDS), "CONNECT", "HELLO", "send", "")), [("id", "1")])
        many = [(f"h{number}", "1") for number in range(rng.choice((250, 299, 300, 301, 1_000)))]
        if kind == 4:
            return self._frame("SEND", [("destination", "/topic/a"), *many])
        if kind == 5:
            return self._frame("SEND", [("destination", "/topic/a"), ("x", "y" * rng.choice((60_000, 66_000, 70_001)))])
        if kind == 6:
            return self._frame("SEND", [("destination", "/topic/a")], bytes(rng.choice((60_000, 70_000, 200_000))))
        if kind == 7:
            return self._frame("SEND", [("destination", "/topic/a")] * 2 + [("n", "1"), ("n", "2")])
        bomb = rng.choice((" OR ".join(["n = 1"] * 800), "(" * 500 + "n" + ")" * 500, "x LIKE '" + "%a" * 300 + "'"))
        return self._frame("SUBSCRIBE", [("id", "bomb"), ("destination", "/topic/a"), ("selector", bomb)])

    # Inside.

    def _pubend(self) -> str:
        return self._rng.choice(("nowhere", "", "é") if self._is_odd() else self._pubends)

    def _destination(self, usual: tuple[str, ...]) -> str:
        return self._rng.choice(_ODD_PLACES if self._is_odd() else usual)

    def _is_odd(self) -> bool:
        return self._rng.random() < self._odd_share

    def _frame(self, command: str, headers: _Headers, body: bytes = b"", *, in_transaction: float = 0.0) -> bytes:
        rng = self._rng
        if self._transactions and rng.random() < in_transaction:
            headers.append(("transaction", rng.choice(self._transactions)))
        if rng.random() < 0.3:
            self._count += 1
            headers.append(("receipt", f"r{self._count}"))
        if self._is_odd():
            odd = rng.choice((*(name for name, _ in headers), "receipt", "transaction", "id", "ack", "selector", "x"))
            headers = [*(each for each in headers if each[0] != odd or rng.random() < 0.3), (odd, rng.choice(_ODD))]
        return self._encoded(command, headers, body)

    def _encoded(self, command: str, headers: _Headers, body: bytes = b"", *, is_escaped: bool = True) -> bytes:
        if body and (b"\0" in body or self._rng.random() < 0.5):
            headers = [*headers, ("content-length", str(len(body)))]
        lines = [command.encode()]
        for name, value in headers:
            line = f"{self._escaped(name)}:{self._escaped(value)}" if is_escaped else f"{name}:{value}"
            lines.append(line.encode(errors="replace"))
        return self._eol.join([*lines, b"", b""]) + body + b"\0"

    def _escaped(self, text: str) -> str:
        if self._version is Version.V1_0:
            return text.replace("\n", " ").replace(":", "_") if self._rng.random() < 0.5 else text
        text = text.replace("\\", "\\\\").replace("\n", "\\n").replace(":", "\\c")
        return text.replace("\r", "\\r") if self._version is Version.V1_2 else text

    def _maybe_damaged(self, said: bytes) -> bytes:
        return stomp_damaged(self._rng, said) if self._rng.random() < self._damage_share else said


def stomp_damaged(rng: Random, said: bytes) -> bytes:
    """The bytes with something wrong: bits, lengths, escapes, ends of lines and frames, headers too many."""
    place = rng.randrange(len(said))
    kind = rng.randrange(12)
    if kind == 0:
        data = bytearray(said)
        data[place] ^= 1 << rng.randrange(8)
        return bytes(data)
    if kind == 1:
        return said[:place] + bytes((rng.randrange(256),)) + said[place + 1 :]
    if kind == 2:
        # No NUL, as if the rest was yet to come.
        return said.replace(b"\0", b"", 1)
    if kind == 3:
        return said[:place]
    if kind == 4:
        return said[:place] + bytes(rng.choice((1, 2, 50))) + said[place:]
    if kind == 5:
        return said.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\r", b"\0")), rng.choice((1, 1, -1)))
    end = said.find(b"\n") + 1
    if kind == 6:
        return said[:end] + rng.choice((b"x:\\t\n", b"x:\\\n", b"x\\:1\n", b"\\c:1\n", b"x:\\r\n")) + said[end:]
    if kind == 7:
        lengths = (
            b"0",
            b"1",
            b"5",
            b"-1",
            b"999",
            b"8388608",
            b"8388609",
            b"99999999999999999999",
            b"",
            b"0x10",
            b"1.0",
        )
        return said[:end] + b"content-length:" + rng.choice(lengths) + b"\n" + said[end:]
    if kind == 8:
        start = said.find(b"\n", end) + 1
        return said[:start] + said[end:start] * rng.choice((1, 5, 400)) + said[start:]
    if kind == 9:
        return (
            said[:end]
            + rng.choice((b"no colon\n", b":empty\n", b"\xff\xfe:1\n", b" x : 1 \n", b"x:\x00\n"))
            + said[end:]
        )
    if kind == 10:
        return said[:place] + rng.randbytes(rng.randrange(1, 30)) + said[place:]
    return said[:end] + b"x" * rng.choice((300, 69_999, 70_001)) + said[end:]


def stomp_parts(said: bytes) -> list[bytes]:
    """The frames in these bytes, if none of them has a body with a NUL."""
    *whole, rest = said.split(b"\0")
    parts = [each + b"\0" for each in whole]
    return [*parts, rest] if rest else parts


def _foreign(rng: Random) -> bytes:
    """What does not belong on a STOMP port."""
    kind = rng.randrange(5)
    if kind == 0:
        hello = encode_frame(f.Hello(f.PROTOCOL_VERSION, "client", "mallory", "fuzz"))
        return hello + encode_frame(f.Subscribe(1, "TRUE"))
    if kind == 1:
        return rng.choice((_WEBSITE, _TLS_HELLO))
    if kind == 2:
        return rng.randbytes(rng.choice((1, 10, 1_000)))
    if kind == 3:
        return bytes(rng.choice((1, 100, 5_000)))
    return b"x" * rng.choice((10, 66_000))


def _telling(text: str) -> str:
    """The text without what UTF-8 cannot say, and without NUL."""
    return text.encode(errors="replace").decode().replace("\0", "0")
