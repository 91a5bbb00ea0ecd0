"""One STOMP client, as it is to its broker: its frames go in and the broker's come out, and the other way round.

After CONNECT it is a client session (``penstock.session``) of the broker, over a line without a wire. SEND waits, and
with it everything behind it, as long as there is no room for it; a receipt is sent when what it is about is durable.
Whatever goes wrong is told in an ERROR frame, after which the connection ends: STOMP knows no other way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from penstock.model.errors import PenstockError
from penstock.model.names import is_client_name
from penstock.protocol.frames import Deliver, Frame, Goodbye, PubendNames, Welcome
from penstock.protocol.stomp import HEART_BEAT, StompError, StompFrame, Version, choose_version, encode
from penstock.session.changes import Changes
from penstock.session.publish_queue import Failure
from penstock.session.resident import Resident
from penstock.session.settings import ClientSettings
from penstock.stomp.heartbeats import HeartBeats
from penstock.stomp.messages import outgoing
from penstock.stomp.output import Output
from penstock.stomp.promises import BrokenPromiseError, Promises
from penstock.stomp.receiving import Receiving
from penstock.stomp.rendering import Rendering
from penstock.stomp.sending import Sending
from penstock.stomp.settings import StompSettings
from penstock.stomp.subscriptions import Held, can_be_told
from penstock.stomp.transactions import Transaction, Transactions, Verdicted

__all__ = ["StompPeer"]

_State: TypeAlias = Literal["new", "greeting", "up", "leaving", "over"]
_CLIENT: Final = ClientSettings(linger_ms=0, acknowledge_ms=250, pinned=True)
_LEAVE_MS: Final = 5_000
"""How long DISCONNECT waits until everything before it is durable."""
_MESSAGE_CHARS_MAX: Final = 500
_CLIENT_ID_CHARS_MAX: Final = 100
_PASSCODE_CHARS_MAX: Final = 4_096
_SERVER: Final = "penstock"
_NO_HEADERS: Final[Mapping[str, str]] = {}


@dataclass(slots=True)
class _Commit:
    """A transaction whose messages are on their way; what it acknowledges counts when they are durable."""

    pubend: str
    before: int
    """The place of the last message before it."""
    place: int
    """That of its own last one."""
    verdicts: list[Verdicted]
    receipt: str


class StompPeer:
    """The conversation with one STOMP client."""

    def __init__(
        self, settings: StompSettings, rendering: Rendering, *, identity: bytes, dead_letters: str = ""
    ) -> None:
        """No other connection may have the same identity; ``dead_letters`` is the pubend that is for these alone."""
        self._settings = settings
        self._rendering = rendering
        self._identity = identity
        self._dead_letters = dead_letters
        self._state: _State = "new"
        self.version = Version.V1_0
        """The version that is spoken; before CONNECT the one that everybody understands."""
        self.is_silent = False
        """Whether the connection ended because the client broke its promise of heart-beats."""
        self._output = Output()
        self._waiting: deque[StompFrame] = deque()
        """Frames that have to wait, the first of them for room or for an answer of the broker."""
        self._promises = Promises()
        self._transactions = Transactions(settings)
        self._commits: deque[_Commit] = deque()
        self._beats: HeartBeats | None = None
        self._resident: Resident | None = None
        self._sending: Sending | None = None
        self._receiving: Receiving | None = None
        self._names: dict[int, str] = {}
        """The pubends, by the broker's numbers for them."""
        self._farewell: list[Frame] = []
        """The last frames for the broker."""
        self.is_stirred = True
        """Whether something has happened since frames were taken, so that there may be more, or an earlier deadline."""
        self._must_look = False
        """Whether frames of the client may have made something due."""
        self._now_ms = 0
        """The last time that anything happened."""
        self._leave_by_ms = 0
        self._last_receipt = ""
        """That of DISCONNECT."""
        self._client_id = ""

    @property
    def is_known(self) -> bool:
        """Whether the broker has let the client in."""
        return self._state in ("up", "leaving")

    @property
    def is_over(self) -> bool:
        """Whether the conversation has ended: once all bytes are out, the connection may be closed."""
        return self._state == "over"

    @property
    def is_waiting(self) -> bool:
        """Whether a frame waits: nothing more should be read from the client until it does not."""
        return bool(self._waiting)

    @property
    def has_bytes(self) -> bool:
        """Whether something is to be written to the client."""
        return bool(self._output)

    @property
    def unread_bytes(self) -> int:
        """About how much memory is taken by what is to be written to the client, receipts to come included."""
        return self._output.size + self._promises.size

    @property
    def is_full(self) -> bool:
        """Whether the client has to acknowledge something before it can get more messages from the broker.

        What the broker says besides must get through: the client may wait for a receipt before it goes on.
        """
        return self._state != "over" and self._resident is not None and not self._resident.reading

    # From the client.

    def on_heard(self, *, now_ms: int) -> None:
        """Something came from the client, be it only a heart-beat."""
        self._now_ms = now_ms
        if self._beats is not None:
            self._beats.on_heard(now_ms=now_ms)

    def on_frame(self, frame: StompFrame, *, now_ms: int, wall_ms: int) -> None:
        """A frame of the client; after DISCONNECT and after errors it is ignored."""
        self.is_stirred = True
        if self._state in ("leaving", "over"):
            return
        if self._waiting or not self._try(frame, now_ms, wall_ms):
            self._waiting.append(frame)
        # By a SEND, which most frames are, nothing becomes due. Of others, many come together: one look does for all.
        self._must_look = self._must_look or frame.command != "SEND"

    def on_malformed(self, error: StompError) -> None:
        """The client sent what is no frame."""
        self.is_stirred = True
        self._fail(error)

    def on_gone(self, *, now_ms: int) -> None:
        """The connection is gone: what the client was sent and has not acknowledged is for others now."""
        self.is_stirred = True
        self._output.clear()
        self._now_ms = now_ms
        self._end()

    # From the broker.

    def on_broker(self, frames: Iterable[Frame], *, now_ms: int, wall_ms: int) -> None:
        """Frames of the broker."""
        self._now_ms = now_ms
        resident, receiving = self._resident, self._receiving
        if resident is None or self._state == "over":
            return
        try:
            rest: list[Frame] = []
            are_for_topics = True
            for frame in frames:
                if isinstance(frame, Welcome):
                    # Peer and broker have one clock: none of the time between saying and hearing counts as skew.
                    wall_ms = frame.now_ms
                if isinstance(frame, PubendNames):
                    # Also together with the welcome, before there is anybody to receive anything.
                    self._names.update(frame.names)
                left = frame if receiving is None else receiving.on_frame(frame)
                if left is not None:
                    rest.append(left)
                are_for_topics = are_for_topics and left is None and type(frame) is Deliver
            if are_for_topics and not self._waiting and not self._promises:
                # Most of what most clients get: it is written out, and nothing follows from it.
                resident.on_reading(now_ms=now_ms)
                return
            self._settle(resident.on_frames(rest, now_ms=now_ms, wall_ms=wall_ms), now_ms)
        except PenstockError as error:
            self._fail(error if isinstance(error, StompError) else StompError(str(error)))
        self.is_stirred = True
        self._go_on(now_ms, wall_ms)

    def _settle(self, changes: Changes, now_ms: int) -> None:
        """React to what the session has learnt."""
        if changes.welcome is not None:
            self._on_welcome(now_ms)
        if changes.goodbye is not None:
            # The broker has closed its side already, and listens no more.
            self._say_error(changes.goodbye.reason)
            self._waiting.clear()
            self._state = "over"
            return
        if changes.order is not None:
            order = changes.order
            raise StompError(f"this broker is about to stop; go on at broker {order.broker} ({order.address})")
        resident, receiving = self._resident, self._receiving
        if resident is None or receiving is None:
            return
        for answer in changes.answers:
            receiving.on_answer(answer)
        resident.publishing.take_events()
        for failure in resident.publishing.take_failures():
            reason = failure.reason or "nobody knows whether it has arrived"
            reason = f"a message to pubend {failure.pubend} is refused: {reason}"
            raise BrokenPromiseError(reason, "destination", self._receipt_of(failure))

    def _receipt_of(self, failure: Failure) -> str:
        """The receipt that was asked for with a message, or with the COMMIT that it belongs to."""
        for commit in self._commits:
            if commit.pubend == failure.pubend and commit.before < failure.place <= commit.place:
                return commit.receipt
        return self._promises.receipt_of(Sending.key_of(failure.pubend), failure.place)

    def _on_welcome(self, now_ms: int) -> None:
        resident, beats = self._resident, self._beats
        assert resident is not None
        assert resident.welcome is not None
        assert beats is not None
        client = self._client_id
        self._sending = Sending(
            self._settings,
            resident,
            self._promises,
            client=client or self._identity.hex(),
            dead_letters=self._dead_letters,
        )
        self._receiving = Receiving(
            self._settings,
            resident,
            self._promises,
            self._output,
            self._rendering,
            version=self.version,
            client_id=client,
            names=self._names,
        )
        headers = {"version": self.version.value, "heart-beat": beats.header, "server": _SERVER}
        headers["session"] = f"{resident.welcome.broker}-{resident.welcome.publisher}"
        self._output.add(encode(StompFrame("CONNECTED", headers), self.version))
        beats.begin(now_ms=now_ms)
        self._state = "up"

    # To both.

    def take_bytes(self, bytes_max: int, *, now_ms: int) -> bytes:
        """Take out what is to be written now, about that many bytes."""
        data = self._output.take(bytes_max)
        if data and self._beats is not None:
            self._beats.on_sent(now_ms=now_ms)
            # Once all is written, the next heart-beat has its time.
            self.is_stirred = self.is_stirred or self._beats.send_ms > 0
        if self._receiving is not None and not self._output and self._receiving.has_unwritten:
            self.is_stirred = True
            self._receiving.on_written()
            self._pump()
        return data

    def _pump(self) -> None:
        assert self._receiving is not None
        try:
            self._receiving.pump()
        except StompError as error:
            self._fail(error)

    def take_frames(self, *, now_ms: int) -> list[Frame]:
        """Take out what is to be told to the broker now."""
        self._now_ms = now_ms
        if self._must_look:
            self._must_look = False
            self._look()
        self.is_stirred = False
        frames, self._farewell = self._farewell, []
        if self._state != "over":
            if self._receiving is not None and self._receiving.outgoing:
                frames += self._receiving.outgoing
                self._receiving.outgoing = []
            if self._resident is not None:
                frames += self._resident.take_frames(now_ms=now_ms)
        return frames

    def next_deadline(self) -> int | None:
        """When to call ``on_deadline``, and then to take frames and bytes."""
        if self._state not in ("up", "leaving"):
            return None
        assert self._resident is not None
        wishes = [self._resident.next_deadline()]
        if self._beats is not None:
            wishes.append(self._beats.next_deadline(has_output=bool(self._output), is_listening=not self._waiting))
        if self._state == "leaving":
            wishes.append(self._leave_by_ms)
        return min((wish for wish in wishes if wish is not None), default=None)

    def on_deadline(self, *, now_ms: int, wall_ms: int) -> None:
        """Beat, look whether the client is silent, and give up waiting."""
        self._now_ms = now_ms
        self.is_stirred = True
        if self._state not in ("up", "leaving"):
            return
        assert self._resident is not None
        assert self._beats is not None
        # The line to the broker has no wire: if nothing came, it is because the client does not read.
        self._resident.on_reading(now_ms=now_ms)
        if self._state == "leaving" and now_ms >= self._leave_by_ms:
            problem = StompError("not everything before DISCONNECT has become durable in time")
            self._fail(problem, receipt=self._last_receipt)
        elif not self._waiting and self._beats.is_silent(now_ms=now_ms):
            self.is_silent = True
            self._fail(StompError(f"nothing was heard for more than {self._beats.hear_ms:,} ms, twice", "heart-beat"))
        elif self._beats.must_beat(now_ms=now_ms) and not self._output:
            self._output.add(HEART_BEAT)
        self._go_on(now_ms, wall_ms)

    def check_invariants(self) -> None:
        """Fails if something is kept for the client beyond its limits."""
        self._transactions.check_invariants()
        if self._receiving is not None:
            self._receiving.check_invariants()
        if self._state == "over":
            assert not self._waiting, "a frame waits after the end"
        elif self._resident is not None:
            self._resident.check_invariants()

    # Inside.

    def _go_on(self, now_ms: int, wall_ms: int) -> None:
        """Handle waiting frames as far as possible, and say what has become due."""
        was_waiting = len(self._waiting) > 0
        self._handle_waiting(now_ms, wall_ms)
        if was_waiting and not self._waiting and self._beats is not None:
            # Nobody has read what the client said meanwhile, so it was not silent.
            self._beats.on_heard(now_ms=now_ms)

    def _handle_waiting(self, now_ms: int, wall_ms: int) -> None:
        self._look()
        has_handled = False
        while self._waiting and self._state not in ("leaving", "over"):
            if not self._try(self._waiting[0], now_ms, wall_ms):
                break
            has_handled = True
            if self._waiting:
                self._waiting.popleft()
        if has_handled:
            self._look()

    def _look(self) -> None:
        """Write out what has arrived, and say what has become due."""
        try:
            if self._receiving is not None and self._state != "over":
                self._receiving.pump()
                self._keep_promises()
            if self._state == "leaving":
                self._leave_if_settled()
        except StompError as error:
            self._fail(error, receipt=self._promises.failing)
        except PenstockError as error:
            self._fail(StompError(str(error)))

    def probe(self) -> None:
        """Write what means nothing, if nothing else is to be written: a client that has gone cannot take it."""
        if self._state in ("up", "leaving") and not self._output:
            self._output.add(HEART_BEAT)

    def _try(self, frame: StompFrame, now_ms: int, wall_ms: int) -> bool:
        """Handle a frame, or end the conversation because of it; False if it has to wait."""
        try:
            return self._handle(frame, now_ms, wall_ms)
        except PenstockError as error:
            told = error if isinstance(error, StompError) else StompError(str(error))
            self._fail(told, receipt=frame.headers.get("receipt", ""), command=frame.command)
            return True

    def _handle(self, frame: StompFrame, now_ms: int, wall_ms: int) -> bool:
        """Handle a frame; False if it has to wait."""
        is_connect = frame.command in ("CONNECT", "STOMP")
        if not can_be_told(frame.headers.get("receipt", ""), self.version):
            raise StompError("a receipt-id cannot have a carriage return in STOMP 1.0", "receipt")
        if self._state == "new":
            if not is_connect:
                raise StompError(f"the first frame is {frame.command}, and not CONNECT")
            self._connect(frame, now_ms)
            return True
        if self._state == "greeting":
            return False
        if is_connect:
            raise StompError("the client is connected already")
        return self._do(frame, now_ms, wall_ms)

    def _do(self, frame: StompFrame, now_ms: int, wall_ms: int) -> bool:
        """Do what a connected client asks for; False if it has to wait."""
        match frame.command:
            case "SEND":
                return self._send(frame, now_ms, wall_ms)
            case "COMMIT":
                return self._commit(frame, now_ms, wall_ms)
            case "SUBSCRIBE":
                return self._receiving_now().subscribe(frame)
            case "UNSUBSCRIBE":
                if self._commits:
                    # What they acknowledge may be this subscription's.
                    return False
                self._receiving_now().unsubscribe(frame, now_ms=now_ms)
            case "ACK" | "NACK":
                self._judge(frame)
            case "BEGIN":
                self._transactions.begin(_transaction_of(frame))
                self._say_receipt(frame.headers.get("receipt", ""))
            case "ABORT":
                self._transactions.end(_transaction_of(frame))
                self._say_receipt(frame.headers.get("receipt", ""))
            case _:
                assert frame.command == "DISCONNECT", frame.command
                self._disconnect(frame, now_ms)
        return True

    def _connect(self, frame: StompFrame, now_ms: int) -> None:
        headers = frame.headers
        version = choose_version(headers.get("accept-version"))
        if version is None:
            versions = ",".join(each.value for each in Version)
            self._say_error(f"supported versions are {versions}", more={"version": versions})
            self._end()
            return
        self.version = version
        self._beats = HeartBeats(headers.get("heart-beat", "0,0"), wanted_ms=self._settings.heartbeat_ms)
        name = headers.get("login", "")
        if not is_client_name(name):
            raise StompError("login is not a name of at most 200 printable characters", "login")
        passcode = headers.get("passcode", "")
        if len(passcode) > _PASSCODE_CHARS_MAX:
            raise StompError(f"passcode has more than {_PASSCODE_CHARS_MAX:,} characters", "passcode")
        self._client_id = headers.get("client-id", name)
        if "client-id" in headers and not (
            len(self._client_id) <= _CLIENT_ID_CHARS_MAX and self._client_id.isprintable()
        ):
            raise StompError(
                f"client-id is not a name of at most {_CLIENT_ID_CHARS_MAX} printable characters", "client-id"
            )
        name = name or self._client_id or f"stomp-{self._identity[:4].hex()}"
        self._resident = Resident(_CLIENT, name=name, token=passcode, publisher=self._identity)
        self._resident.on_connected(now_ms=now_ms)
        self._state = "greeting"

    def _sending_now(self) -> Sending:
        assert self._sending is not None, "nobody is connected"
        return self._sending

    def _receiving_now(self) -> Receiving:
        assert self._receiving is not None, "nobody is connected"
        return self._receiving

    def _send(self, frame: StompFrame, now_ms: int, wall_ms: int) -> bool:
        message = outgoing(frame, types=self._settings.types, wall_ms=wall_ms)
        receipt = frame.headers.get("receipt", "")
        transaction = frame.headers.get("transaction")
        if transaction is None:
            return self._sending_now().publish(message, receipt, now_ms=now_ms, wall_ms=wall_ms)
        self._transactions.send(transaction, message)
        self._say_receipt(receipt)
        return True

    def _judge(self, frame: StompFrame) -> None:
        receiving = self._receiving_now()
        verdict = receiving.judge(frame)
        receipt = frame.headers.get("receipt", "")
        transaction = frame.headers.get("transaction")
        if transaction is None:
            receiving.settle([verdict], receipt)
            receiving.pump()
        else:
            self._transactions.judge(transaction, verdict)
            self._say_receipt(receipt)

    def _commit(self, frame: StompFrame, now_ms: int, wall_ms: int) -> bool:
        name = _transaction_of(frame)
        transaction = self._transactions.find(name)
        self._check_pubends(name, transaction)
        receipt = frame.headers.get("receipt", "")
        if transaction.sends:
            placed = self._sending_now().publish_all(transaction.sends, now_ms=now_ms, wall_ms=wall_ms)
            if placed is None:
                return False
            pubend, place = placed
            before = place - len(transaction.sends)
            self._commits.append(_Commit(pubend, before, place, transaction.verdicts, receipt))
        else:
            self._settle_verdicts(transaction.verdicts, receipt)
        self._transactions.end(name)
        self._keep_promises()
        return True

    def _check_pubends(self, name: str, transaction: Transaction) -> None:
        """Refuse a transaction that no single pubend can take, or with messages that are for others by now."""
        if any(each.subscription.is_closing and isinstance(each.subscription, Held) for each in transaction.verdicts):
            raise StompError(
                f"transaction {name[:100]!r} has messages of a subscription that has ended, and nothing of it was done",
                "transaction",
            )
        if any(not each.is_waiting() for each in transaction.verdicts):
            raise StompError(
                f"transaction {name[:100]!r} has an ACK or NACK of a message that waits for none any more, and nothing "
                "of it was done",
                "transaction",
            )
        pubends = self._sending_now().pubends_of(transaction.sends)
        pubends |= {message.pubend for message in transaction.guaranteed()}
        if len(pubends) > 1:
            raise StompError(
                f"transaction {name[:100]!r} concerns pubends {', '.join(sorted(pubends))}; all of it must concern one "
                "pubend, and nothing of it was done",
                "transaction",
            )

    def _settle_verdicts(self, verdicts: list[Verdicted], receipt: str) -> None:
        """Do what the ACKs and NACKs of a transaction say."""
        receiving = self._receiving_now()
        if verdicts:
            receiving.settle(verdicts, receipt)
        else:
            self._say_receipt(receipt)
        receiving.pump()

    def _disconnect(self, frame: StompFrame, now_ms: int) -> None:
        assert self._resident is not None
        self._last_receipt = frame.headers.get("receipt", "")
        self._state = "leaving"
        self._leave_by_ms = now_ms + _LEAVE_MS
        self._resident.hurry(now_ms=now_ms)
        self._receiving_now().hurry()

    def _leave_if_settled(self) -> None:
        """End the conversation in order, if everything that came before DISCONNECT is durable."""
        resident = self._resident
        assert resident is not None
        if self._promises or self._commits or not resident.publishing.is_settled(resident.publishing.mark()):
            return
        if not self._receiving_now().is_settled():
            return
        self._say_receipt(self._last_receipt)
        self._end()

    def _keep_promises(self) -> None:
        """Send the receipts that are due."""
        sending = self._sending_now()
        while self._commits and sending.is_durable(self._commits[0].pubend, self._commits[0].place):
            commit = self._commits.popleft()
            self._settle_verdicts(commit.verdicts, commit.receipt)
        for receipt, headers in self._promises.take_kept():
            self._say_receipt(receipt, headers)

    def _say_receipt(self, receipt: str, headers: Mapping[str, str] = _NO_HEADERS) -> None:
        if receipt:
            self._output.add(encode(StompFrame("RECEIPT", {"receipt-id": receipt, **headers}), self.version))

    def _fail(self, error: StompError, *, receipt: str = "", command: str = "") -> None:
        """Tell the client what is wrong, with which frame of its, and end the conversation."""
        if self._state == "over":
            return
        more = {"penstock-header": error.header} if error.header else {}
        if isinstance(error, BrokenPromiseError):
            receipt = error.receipt
        if receipt and can_be_told(receipt, self.version):
            more["receipt-id"] = receipt
        self._say_error(error.reason, more=more, command=command)
        self._end()

    def _say_error(self, reason: str, *, more: dict[str, str] | None = None, command: str = "") -> None:
        # The header is a summary; a selector's error also shows the place, on lines of its own.
        summary = reason.partition("\n")[0][:_MESSAGE_CHARS_MAX]
        headers = {"message": _one_line(summary), "content-type": "text/plain", **(more or {})}
        body = f"{command}: {reason}\n" if command else f"{reason}\n"
        self._output.add(encode(StompFrame("ERROR", headers, body.encode(errors="replace")), self.version))

    def _end(self) -> None:
        """Say the last words to the broker: what is still to be sent, and what the client was done with."""
        if self._state == "over":
            return
        resident, receiving = self._resident, self._receiving
        if resident is not None:
            if receiving is not None:
                receiving.leave()
                self._farewell += receiving.outgoing
                # Else what could not be written would count as read.
                resident.on_closing(is_done=not receiving.has_unwritten)
            self._farewell += resident.take_frames(now_ms=self._now_ms)
        # Also of a stranger: its connection would count as one until the time for its handshake is over.
        self._farewell.append(Goodbye("closed", "the client is done"))
        self._waiting.clear()
        self._state = "over"


def _transaction_of(frame: StompFrame) -> str:
    name = frame.headers.get("transaction")
    if not name:
        raise StompError(f"{frame.command} names no transaction", "transaction")
    return name


def _one_line(text: str) -> str:
    """The text without what a header of 1.0 cannot have."""
    return text.replace("\0", " ").replace("\r", " ").replace("\n", " ")
