"""STOMP clients at brokers in memory: what they say goes through their peers, and comes back as frames.

Not in the folder of the tests that use it, which has the name of a client library and cannot be imported from.
"""

from __future__ import annotations

from typing import Any

from overlay import Overlay, TestClient
from penstock.broker import BrokerSettings
from penstock.protocol import frames as f
from penstock.protocol.stomp import SERVER_COMMANDS, StompError, StompFrame, StompReader, Version
from penstock.stomp import Rendering, StompPeer, StompSettings

STEP_MS = 50
_DATA = (f.Deliver, f.Handed, f.Horizons)
ROUNDS_MAX = 200

V1_0, V1_1, V1_2 = Version


def broker(name: str = "b1", **settings: Any) -> BrokerSettings:
    """A broker with two guaranteed pubends, a best-effort one, and one for dead letters."""
    usual: dict[str, Any] = {
        "overlay": "test",
        "number": int(name[1:]),
        "pubends": ("p", "q", "loose", "dead"),
        "best_effort": ("loose",),
        "dead_letters": "dead",
        "inquiry_ms": 0,
        "members": (name,),
    }
    return BrokerSettings(name, **(usual | settings))


class Stage(Overlay):
    """Brokers, and the STOMP clients of theirs, who hear at once what is said to them."""

    def __init__(self, *brokers: BrokerSettings, stomp: StompSettings | None = None) -> None:
        self.stomps: list[StompClient] = []
        self.stomp = stomp or StompSettings(port=1)
        self.rendering = Rendering()
        super().__init__(*(brokers or (broker(),)))
        self.wait(100)

    @property
    def wall_ms(self) -> int:
        """The clock on the wall: in one process it is the broker's."""
        return self.now_ms

    def connect(self, name: str = "somebody", version: Version = V1_2, at: str = "b1", **headers: str) -> StompClient:
        """A client that the broker has let in."""
        client = self.stranger_by_stomp(at)
        client.say("CONNECT", accept_version=version.value, host="test", login=name, **headers)
        assert client.peer.is_known, client.error
        return client

    def stranger_by_stomp(self, at: str = "b1") -> StompClient:
        """A client that has not said anything."""
        return StompClient(self, at)

    def settle(self) -> None:
        """Has everybody hear and answer, until nobody has anything to say."""
        for _ in range(ROUNDS_MAX):
            # Each of them has its turn, whether or not another one had something to say.
            busy = [client for client in list(self.stomps) if client.exchange()]
            if not busy:
                return
        raise AssertionError("peers and brokers do not come to an end")

    def pass_time(self, milliseconds: int) -> None:
        """Lets time pass, with everybody's deadlines in their turn."""
        end_ms = self.now_ms + milliseconds
        while self.now_ms < end_ms:
            self.wait(min(STEP_MS, end_ms - self.now_ms))
            self.settle()
            for client in list(self.stomps):
                client.wake()
            self.settle()

    def crash(self, name: str) -> None:
        super().crash(name)
        for client in [each for each in self.stomps if each.native.broker == name]:
            client.vanish()

    def sync(self) -> None:
        super().sync()
        self.settle()


def frame(command: str, body: bytes = b"", /, **headers: str) -> StompFrame:
    """A frame; underscores in the names of headers stand for hyphens, two of them for dots."""
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in headers.items()}
    return StompFrame(command, named, body)


class StompClient:
    """One connection."""

    def __init__(self, stage: Stage, at: str) -> None:
        self.stage = stage
        self.native: TestClient = stage.stranger(at)
        identity = self.native.connection.to_bytes(16)
        self.peer = StompPeer(stage.stomp, stage.rendering, identity=identity, dead_letters="dead")
        self.reads = True
        """Whether it reads what is written to it."""
        self.is_gone = False
        self.reader = StompReader()
        self.answers = StompReader(commands=SERVER_COMMANDS)
        self._names: dict[int, str] = {}
        self._data: list[f.Frame] = []
        """Messages of the broker that it has not taken yet: everything else overtakes them."""
        self.frames: list[StompFrame] = []
        """All that it got."""
        self.beats = 0
        """Heart-beats that it got."""
        stage.stomps.append(self)

    # What it does.

    def say(self, command: str, body: bytes = b"", /, **headers: str) -> None:
        """Says a frame."""
        self.say_all(frame(command, body, **headers))

    def say_all(self, *frames: StompFrame) -> None:
        """Says frames before anybody answers."""
        for each in frames:
            self.peer.on_heard(now_ms=self.stage.now_ms)
            self.peer.on_frame(each, now_ms=self.stage.now_ms, wall_ms=self.stage.wall_ms)
            self.check()
        self.stage.settle()

    def feed(self, data: bytes) -> None:
        """Says bytes."""
        now_ms = self.stage.now_ms
        self.peer.on_heard(now_ms=now_ms)
        try:
            for each in self.reader.feed(data):
                self.peer.on_frame(each, now_ms=now_ms, wall_ms=self.stage.wall_ms)
                self.reader.version = self.peer.version
        except StompError as error:
            self.peer.on_malformed(error)
        self.check()
        self.stage.settle()

    def hear(self, *frames: f.Frame) -> None:
        """Hears what its broker has not said."""
        self.peer.on_broker(frames, now_ms=self.stage.now_ms, wall_ms=self.stage.wall_ms)
        self.read()

    def number_of(self, pubend: str) -> int:
        """The broker's number for a pubend on this connection."""
        return next(number for number, name in self._names.items() if name == pubend)

    def beat(self) -> None:
        """Shows that it is alive."""
        self.peer.on_heard(now_ms=self.stage.now_ms)

    def leave(self) -> None:
        """Its connection breaks."""
        self.is_gone = True
        self.stage.stomps.remove(self)
        self.peer.on_gone(now_ms=self.stage.now_ms)
        if self.native.closed is None and (frames := self.peer.take_frames(now_ms=self.stage.now_ms)):
            self.native.say(*frames)
        self.stage.leave(self.native)
        self.stage.settle()

    def vanish(self) -> None:
        """The process of its broker dies."""
        self.is_gone = True
        self.stage.stomps.remove(self)

    # What the shell does.

    def exchange(self) -> bool:
        """Has peer and broker say what they have to say; returns whether there was anything."""
        now_ms = self.stage.now_ms
        frames = self.peer.take_frames(now_ms=now_ms)
        if frames and self.native.closed is None:
            self.native.say(*frames)
        news = self._news()
        if news:
            self.peer.on_broker(news, now_ms=now_ms, wall_ms=self.stage.wall_ms)
        self.read()
        self.check()
        return bool(frames or news)

    def _news(self) -> list[f.Frame]:
        """What the broker has said; of data nothing, as long as the client has to acknowledge something first."""
        arrived, self.native.heard = self.native.heard, []
        for each in arrived:
            if isinstance(each, f.PubendNames):
                self._names.update(each.names)
        self._data.extend(each for each in arrived if isinstance(each, _DATA))
        news: list[f.Frame] = [each for each in arrived if not isinstance(each, _DATA)]
        if self.reads and not self.peer.is_full:
            news += self._data
            self._data = []
        return news

    def read(self) -> None:
        """Reads what is written to it, unless it is slow."""
        while self.reads and self.peer.has_bytes:
            data = self.peer.take_bytes(10_000, now_ms=self.stage.now_ms)
            self.beats += data == b"\n"
            for each in self.answers.feed(data):
                self.frames.append(each)
                self.answers.version = self.peer.version

    def wake(self) -> None:
        """Lets the peer do what is due; it must not want to be woken again at once."""
        now_ms = self.stage.now_ms
        due_ms = self.peer.next_deadline()
        if due_ms is None or due_ms > now_ms:
            return
        self.peer.on_deadline(now_ms=now_ms, wall_ms=self.stage.wall_ms)
        if frames := self.peer.take_frames(now_ms=now_ms):
            self.native.say(*frames)
        again_ms = self.peer.next_deadline()
        assert again_ms is None or again_ms > now_ms, f"wants to be woken at {again_ms} again, and it is {now_ms}"
        self.read()
        self.check()

    def check(self) -> None:
        """Whether the peer's session is sound."""
        self.peer.check_invariants()

    # What it got.

    def all(self, command: str) -> list[StompFrame]:
        return [each for each in self.frames if each.command == command]

    @property
    def messages(self) -> list[StompFrame]:
        return self.all("MESSAGE")

    @property
    def bodies(self) -> list[bytes]:
        return [each.body for each in self.messages]

    @property
    def receipts(self) -> list[str]:
        return [each.headers["receipt-id"] for each in self.all("RECEIPT")]

    @property
    def error(self) -> str:
        """The reason of the error that it got; empty if it got none."""
        return next((each.headers["message"] for each in self.all("ERROR")), "")

    @property
    def fault(self) -> StompFrame:
        """The ERROR that it got."""
        (found,) = self.all("ERROR")
        return found

    def send(self, destination: str, body: bytes = b"", /, **headers: str) -> None:
        self.say("SEND", body, destination=destination, **headers)

    def subscribe(self, destination: str, id_: str = "s", /, **headers: str) -> None:
        self.say("SUBSCRIBE", id=id_, destination=destination, **headers)

    def ack(self, message: StompFrame, command: str = "ACK", /, **headers: str) -> None:
        """Says ACK, or NACK, of a message, in the way of its version."""
        self.say_all(self.verdict(message, command, **headers))

    def nack(self, message: StompFrame, /, **headers: str) -> None:
        self.ack(message, "NACK", **headers)

    def verdict(self, message: StompFrame, command: str = "ACK", /, **headers: str) -> StompFrame:
        told = message.headers
        if self.peer.version is V1_2:
            named = {"id": told["ack"]}
        else:
            named = {"message_id": told["message-id"], "subscription": told["subscription"]}
        return frame(command, b"", **named, **headers)


def linked(**settings: Any) -> Stage:
    """Two brokers, each with a guaranteed pubend."""
    usual: dict[str, Any] = {"best_effort": (), "members": ("b1", "b2"), "dead_letters": ""} | settings
    stage = Stage(
        broker("b1", pubends=("p1",), neighbours=("b2",), **usual),
        broker("b2", pubends=("p2",), neighbours=("b1",), **usual),
    )
    stage.link("b1", "b2")
    stage.pass_time(3_000)
    return stage
