"""What a STOMP client receives: its subscriptions, the MESSAGE frames for them, and what becomes of ACK and NACK."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from penstock.model.errors import MisuseError
from penstock.model.names import is_durable_name
from penstock.model.tick import Tick, format_tick
from penstock.protocol.frames import (
    LATEST,
    Acknowledge,
    Deliver,
    Forget,
    Forgotten,
    Frame,
    Horizons,
    Lost,
    Refused,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    is_guaranteed_number,
)
from penstock.protocol.stomp import StompError, StompFrame, Version, encode_headers
from penstock.protocol.work_frames import PREFETCH_MAX, Outcome, Verdict
from penstock.session.changes import Answer
from penstock.session.inbox import Wanted
from penstock.session.received import HandedOut, Received
from penstock.session.resident import Resident
from penstock.session.work import Said
from penstock.stomp.output import Output
from penstock.stomp.promises import BrokenPromiseError, IsKept, Promises
from penstock.stomp.rendering import Rendering
from penstock.stomp.sending import shared
from penstock.stomp.settings import StompSettings
from penstock.stomp.subscriptions import AUTO, Held, Request, Topic, head
from penstock.stomp.transactions import Verdicted

__all__ = ["Receiving"]

_FIRST_NUMBER: Final = 2**30
"""Numbers of topics begin here; below are those that the session gives to what it holds."""
_ROUTES_MAX: Final = 10_000
_NUMBER: Final = struct.Struct(">I")
_NOBODY: Final = b""
_UNACKNOWLEDGED_BYTES_MAX: Final = 16 * 1024 * 1024
"""What the messages of one subscription may have that wait for an ACK: as much as may wait for it in its inbox."""
_ACK_RECEIPTS_BYTES_MAX: Final = 16 * 1024 * 1024
"""About how much memory the receipts of ACKs may take that are to come."""
_PENDING: Final = "penstock-pending"
_LOST: Final = "penstock-lost"


@dataclass(slots=True)
class _Route:
    """Who of this connection gets a message, by the numbers in its delivery."""

    heads: list[bytes] = field(default_factory=list)
    """How the frames begin for topics that acknowledge nothing; the same for messages that have no destination."""
    own_heads: list[bytes] = field(default_factory=list)
    others: list[Topic] = field(default_factory=list)
    """Topics whose frames differ from message to message."""
    rest: bytes = _NOBODY
    """The numbers of what the session holds."""


class Receiving:
    """The subscriptions of one connection."""

    def __init__(
        self,
        settings: StompSettings,
        resident: Resident,
        promises: Promises,
        output: Output,
        rendering: Rendering,
        *,
        version: Version,
        client_id: str,
        names: Mapping[int, str],
    ) -> None:
        """``names`` are the pubends by their numbers; they become more."""
        self._settings = settings
        self._resident = resident
        self._promises = promises
        self._output = output
        self._render = rendering.at(version).render
        self._version = version
        self._client_id = client_id
        self._by_id: dict[str, Topic | Held] = {}
        self._topics: dict[int, Topic] = {}
        """By their numbers, also those that the broker has yet to end."""
        self._held: dict[int, Held] = {}
        """By the numbers of their inboxes."""
        self._ready: set[int] = set()
        """Topics that are in force."""
        self._last_number = _FIRST_NUMBER
        self._last_ack = 0
        self._forgetting: dict[int, tuple[str, str]] = {}
        """Questions to forget durable subscriptions that are open: which one, and the receipt that was asked for."""
        self._to_forget: Counter[str] = Counter()
        """How many answers are still to come for each durable subscription, questions not asked yet included."""
        self._routes: dict[bytes, _Route] = {}
        self._names = names
        self._wanting: Counter[str] = Counter()
        """How many topics want messages of one pubend alone, and, under the empty name, how many want all."""
        self._begun: dict[int, set[int]] = {}
        """By the number of a pubend, the topics of which the broker has said where in its stream they begin."""
        self.outgoing: list[Frame] = []
        """What is to be said to the broker, besides what the session says."""

    # What the client asks for.

    def subscribe(self, frame: StompFrame) -> bool:
        """Begin a subscription; its receipt is due when it is in force. Raises ``StompError``.

        False if it has to wait: a durable subscription of that name has not ended yet, and what was acknowledged of it
        would not count any more.
        """
        request = Request.parse(frame, self._version)
        if request.id in self._by_id:
            raise StompError(f"subscription {request.id[:100]!r} exists already", "id")
        if len(self._by_id) >= self._settings.subscriptions_max:
            raise StompError(f"a connection may have {self._settings.subscriptions_max:,} subscriptions", "id")
        durable = self._durable(request.name) if request.name else ""
        if durable and (
            self._to_forget[durable]
            or any(each.inbox.wanted.durable == durable and each.is_closing for each in self._held.values())
        ):
            return False
        selector = request.destination.selector(request.condition)
        otherwise = 0 if request.start == "earliest" else LATEST
        receipt = frame.headers.get("receipt", "")
        if request.name or request.destination.kind == "queue":
            self._hold(request, selector, otherwise, durable, receipt)
        else:
            self._begin(request, selector, otherwise, receipt)
        return True

    def _begin(self, request: Request, selector: str, otherwise: int, receipt: str) -> None:
        self._last_number += 1
        number = self._last_number
        self._topics[number] = self._by_id[request.id] = Topic(request, number, head(request, self._version))
        self._wanting[_only_pubend(request)] += 1
        self.outgoing.append(
            Subscribe(number, selector, otherwise=otherwise, missing=request.missing, pubends=_pubends(request))
        )
        if receipt:
            topic = self._topics[number]
            self._promises.add(
                f"subscribe {number}",
                receipt,
                lambda: number in self._ready or topic.is_closing,
                headers=lambda: _pending(topic.pending),
            )

    def _hold(self, request: Request, selector: str, otherwise: int, durable: str, receipt: str) -> None:
        if durable:
            wanted = Wanted(
                selector,
                otherwise=otherwise,
                missing=request.missing,
                durable=durable,
                is_manual=request.ack != AUTO,
                pubends=_pubends(request),
            )
        else:
            prefetch = min(request.prefetch or self._settings.prefetch, PREFETCH_MAX)
            wanted = Wanted(
                selector, otherwise=otherwise, shared=shared(self._settings, request.destination.name, prefetch)
            )
        try:
            inbox = self._resident.subscribe(wanted)
        except MisuseError as error:
            raise StompError(str(error), "selector") from None
        held = Held(request, inbox, head(request, self._version))
        self._held[inbox.number] = self._by_id[request.id] = held
        if held.is_shared:
            # It has what it was sent for as long as it is connected: STOMP has no way to ask for more time.
            inbox.fetched = held.in_hand
        self._promises.add(
            f"subscribe {inbox.number}",
            receipt,
            partial(_is_in_force, held),
            headers=lambda: _pending(inbox.pending),
        )

    def _durable(self, name: str) -> str:
        if not self._client_id:
            raise StompError("a durable subscription needs a client-id in CONNECT", "client-id")
        full = f"{self._client_id}:{name}"
        if not is_durable_name(full):
            raise StompError(
                f"client-id and name of a durable subscription may have letters, digits and any of _ . : / -, "
                f"200 together: {full[:100]!r}",
                "activemq.subscriptionName",
            )
        return full

    def unsubscribe(self, frame: StompFrame, *, now_ms: int) -> None:
        """End a subscription, and forget it if it is durable and the client says so; raises ``StompError``."""
        headers = frame.headers
        name = headers.get("activemq.subscriptionName", "")
        identifier = headers.get("id") or (headers.get("destination", "") if self._version is Version.V1_0 else "")
        receipt = headers.get("receipt", "")
        found = self._by_id.pop(identifier, None)
        if not name and headers.get("durable") == "true":
            # Also one that is not in use, whose name was its id.
            name = identifier if found is None else found.request.name
        if found is None and not name:
            raise StompError(f"there is no subscription {identifier[:100]!r}", "id")
        is_over: IsKept = _at_once
        if isinstance(found, Topic):
            is_over = self._end(found)
        elif found is not None:
            is_over = self._let_go(found)
        if name:
            self._forget(self._durable(name), receipt, is_over, now_ms=now_ms)
        elif receipt:
            self._promises.add(f"unsubscribe {identifier}", receipt, is_over)

    def _end(self, topic: Topic) -> IsKept:
        topic.is_closing = True
        self._routes.clear()
        self.outgoing.append(Unsubscribe(topic.number))
        return lambda: topic.number not in self._topics

    def _let_go(self, held: Held) -> IsKept:
        held.is_closing = True
        held.inbox.fetched = tuple
        self._await_kept(held)
        self._withdraw_if_settled(held)
        return lambda: held.inbox.is_over

    def _withdraw_if_settled(self, held: Held) -> None:
        """Withdraw a subscription that its client has ended: not before it is known whether its ACKs count.

        Nobody would hear of that any more.
        """
        if not held.is_withdrawn and self._are_kept(held):
            held.is_withdrawn = True
            self._resident.unsubscribe(held.inbox, is_done=held.request.ack == AUTO)

    def _await_kept(self, held: Held) -> None:
        """Have everything kept that the client has acknowledged of a durable subscription."""
        receipts = held.inbox.receipts
        if receipts is not None:
            held.unkept += receipts.unkept()
            for pubend, tick in held.unkept:
                receipts.wait_for(pubend, tick)
            self._resident.on_moved(held.inbox)

    @staticmethod
    def _are_kept(held: Held) -> bool:
        """Whether everything counts that the client has said, up to the last ``_await_kept``."""
        if held.inbox.is_over:
            return True
        if held.inbox.work is not None:
            return not held.inbox.work.unanswered
        receipts = held.inbox.receipts
        assert receipts is not None, "neither durable nor shared"
        while held.unkept and receipts.is_kept(*held.unkept[-1]):
            receipts.wait_no_more(*held.unkept.pop())
        return not held.unkept

    def hurry(self) -> None:
        """Have everything kept that the client has acknowledged so far."""
        for held in self._held.values():
            self._await_kept(held)

    def is_settled(self) -> bool:
        """Whether everything is kept that the client had acknowledged when ``hurry`` was called."""
        return all(map(self._are_kept, self._held.values()))

    def _forget(self, durable: str, receipt: str, is_over: IsKept, *, now_ms: int) -> None:
        asked: list[int] = []

        def is_forgotten() -> bool:
            if not asked and is_over():
                asked.append(self._resident.ask(partial(Forget, durable=durable), now_ms=now_ms))
                self._forgetting[asked[0]] = durable, receipt
            return bool(asked) and asked[0] not in self._forgetting

        self._to_forget[durable] += 1
        self._promises.add(f"forget {durable}", receipt, is_forgotten)

    # What becomes of messages.

    def judge(self, frame: StompFrame) -> Verdicted:
        """The messages that an ACK or NACK is about; raises ``StompError``."""
        headers = frame.headers
        subscription, ack = self._find(headers)
        if subscription is None or ack is None:
            named = headers.get("id") or headers.get("message-id", "")
            raise StompError(
                f"no message {named[:100]!r} waits for {frame.command}", "id" if "id" in headers else "message-id"
            )
        is_one = subscription.request.ack == "client-individual"
        acks = [ack] if is_one else subscription.waiting.through(ack)
        return Verdicted(subscription, acks, is_done=frame.command == "ACK")

    def _find(self, headers: dict[str, str]) -> tuple[Topic | Held | None, str | None]:
        if self._version is Version.V1_2:
            ack = headers.get("id")
            if ack is None:
                raise StompError("the id of the message is missing", "id")
            number = ack.partition("-")[0]
            key = int(number) if number.isascii() and number.isdecimal() and len(number) < 12 else 0
            owner = self._topics.get(key) or self._held.get(key)
            if owner is None or owner.is_closing:
                return None, None
            return owner, owner.waiting.find(ack, "")
        message_id = headers.get("message-id")
        if message_id is None:
            raise StompError("the message-id is missing", "message-id")
        wanted = headers.get("subscription")
        if wanted is None and self._version is not Version.V1_0:
            raise StompError("the subscription of the message is missing", "subscription")
        for each in self._by_id.values():
            if wanted in (None, each.request.id) and (found := each.waiting.find("", message_id)) is not None:
                return each, found
        return None, None

    def settle(self, verdicts: Sequence[Verdicted], receipt: str) -> None:
        """Do what ACKs and NACKs say, at least one; the receipt is due when all of that counts for good."""
        places = {f"{each.subscription.request.id}@{pubend}" for each in verdicts for pubend in each.pubends()}
        are_kept = [self._settle(each, is_awaited=bool(receipt)) for each in verdicts]
        if receipt:
            # By pubends: those that are out of reach must not keep the receipts of others.
            self._promises.add(f"ack {' '.join(sorted(places))}", receipt, partial(_are_all, are_kept), is_ack=True)
            if self._promises.acks_size > _ACK_RECEIPTS_BYTES_MAX:
                raise StompError("too many ACKs wait for their receipts; is there an earlier message without one?")

    def _settle(self, verdict: Verdicted, *, is_awaited: bool) -> IsKept:
        subscription = verdict.subscription
        messages = [message for ack in verdict.acks if (message := subscription.waiting.take(ack)) is not None]
        if isinstance(subscription, Topic):
            return _at_once
        assert not subscription.is_closing, "its messages are for others"
        if subscription.is_shared:
            return self._judge_work(subscription, messages, is_done=verdict.is_done)
        return self._acknowledge(subscription, messages, is_awaited=is_awaited)

    def _judge_work(self, held: Held, messages: Iterable[Received], *, is_done: bool) -> IsKept:
        assert held.inbox.work is not None, "not a member of a group"
        judge = held.inbox.work.judge
        said = [
            judge(message, Verdict.DONE)
            if is_done
            else judge(message, Verdict.REFUSED, self._settings.nack_delay_ms, "refused by NACK")
            for message in messages
            if isinstance(message, HandedOut)
        ]
        return partial(_count, said)

    def _acknowledge(self, held: Held, messages: Sequence[Received], *, is_awaited: bool) -> IsKept:
        """A NACK counts like an ACK here: nobody else could get the message."""
        receipts = held.inbox.receipts
        assert receipts is not None, "not durable"
        guaranteed = [message for message in messages if message.is_guaranteed]
        for message in guaranteed:
            receipts.acknowledge(message)
            if is_awaited:
                receipts.wait_for(message.pubend, message.tick)
        self._resident.on_moved(held.inbox)
        open_ones = list(guaranteed)

        def is_kept() -> bool:
            while open_ones and receipts.is_kept(open_ones[-1].pubend, open_ones[-1].tick):
                kept = open_ones.pop()
                receipts.wait_no_more(kept.pubend, kept.tick)
            if open_ones and held.inbox.is_over:
                raise StompError(f"subscription {held.request.id[:100]!r} has ended: {held.inbox.reason}")
            return not open_ones

        return is_kept

    # What the broker says.

    def on_frame(self, frame: Frame) -> Frame | None:
        """Take what is about topics; returns what is left for the session."""
        kind = type(frame)
        if kind is Deliver:
            return self._deliver(frame) if self._topics else frame  # type: ignore[arg-type]
        if isinstance(frame, Subscribed) and frame.number in self._topics:
            self._ready.add(frame.number)
            self._topics[frame.number].pending = frame.pending
            return None
        if isinstance(frame, Unsubscribed) and frame.number in self._topics:
            self._wanting[_only_pubend(self._topics.pop(frame.number).request)] -= 1
            self._ready.discard(frame.number)
            for begun in self._begun.values():
                begun.discard(frame.number)
            return None
        if (
            isinstance(frame, Refused)
            and frame.number in self._topics
            and frame.request in ("subscribe", "unsubscribe")
        ):
            topic = self._topics[frame.number]
            raise self._refusal(topic.request, topic.number, frame.reason)
        if isinstance(frame, Horizons) and self._topics:
            self._on_horizons(frame)
        elif isinstance(frame, Lost) and self._topics:
            return self._on_lost(frame)
        return frame

    def _refusal(self, request: Request, number: int, reason: str) -> BrokenPromiseError:
        """The broker refuses a subscription, at once or later."""
        receipt = self._promises.receipt_of(f"subscribe {number}")
        return BrokenPromiseError(f"subscription {request.id[:100]!r} has ended: {reason}", "destination", receipt)

    def on_answer(self, answer: Answer) -> None:
        """The broker has answered a request to forget; raises ``StompError`` if it refuses."""
        found = self._forgetting.pop(answer.number, None)
        if found is None:
            return
        durable, receipt = found
        self._to_forget[durable] -= 1
        if not self._to_forget[durable]:
            del self._to_forget[durable]
        problem = ""
        if isinstance(answer, Refused):
            problem = f"the durable subscription is not forgotten: {answer.reason}"
        elif isinstance(answer, Forgotten) and answer.pending:
            problem = f"pubends out of reach have not forgotten the durable subscription: {', '.join(answer.pending)}"
        if problem:
            raise BrokenPromiseError(problem, "activemq.subscriptionName", receipt)

    def check_invariants(self) -> None:
        """Fails if there are more subscriptions, or messages that wait for an ACK, than there may be."""
        settings = self._settings
        assert len(self._by_id) <= settings.subscriptions_max, f"{len(self._by_id)} subscriptions"
        for each in self._by_id.values():
            assert len(each.waiting) <= settings.unacknowledged_max, f"{len(each.waiting)} messages wait for an ACK"

    def leave(self) -> None:
        """The connection ends: what was sent and not acknowledged is given up, so that others may have it at once."""
        for held in self._held.values():
            held.inbox.fetched = tuple

    def _deliver(self, frame: Deliver) -> Deliver | None:
        """Write out what is for topics; returns a delivery of what is for others."""
        pubend = self._names[frame.pubend]
        is_guaranteed = is_guaranteed_number(frame.pubend)
        render, routes = self._render, self._routes
        rest: list[tuple[int, bytes, bytes]] = []
        for tick, numbers, body in zip(frame.ticks, frame.numbers, frame.bodies, strict=True):
            route = routes.get(numbers)
            if route is None:
                route = self._route(numbers)
            if route.heads or route.others:
                rendered = render(body, pubend, tick, is_guaranteed=is_guaranteed)
                if route.heads:
                    self._output.add_fan(route.heads if rendered.has_destination else route.own_heads, rendered.rest)
                for topic in route.others:
                    self._write_own(topic, rendered.rest, rendered.message_id, has_destination=rendered.has_destination)
            if route.rest:
                rest.append((tick, route.rest, body))
        if not rest:
            return None
        ticks, numbered, bodies = zip(*rest, strict=True)
        return Deliver(frame.pubend, ticks, numbered, bodies)

    def _route(self, numbers: bytes) -> _Route:
        route = _Route()
        for start in range(0, len(numbers), 4):
            number = numbers[start : start + 4]
            topic = self._topics.get(_NUMBER.unpack(number)[0])
            if topic is None:
                route.rest += number
            elif topic.is_closing:
                continue
            elif topic.request.ack == AUTO and not topic.lost:
                route.heads.append(topic.heads[0])
                route.own_heads.append(topic.heads[1])
            else:
                route.others.append(topic)
        if len(self._routes) >= _ROUTES_MAX:
            self._routes.clear()
        self._routes[numbers] = route
        return route

    def _write_own(self, topic: Topic, rest: bytes, message_id: str, *, has_destination: bool) -> None:
        own: dict[str, str] = {}
        if topic.request.ack != AUTO:
            own["ack"] = self._next_ack(topic.number)
            if len(topic.waiting) >= self._settings.unacknowledged_max:
                # It cannot come again, whatever becomes of it: an ACK of it is refused from now on.
                topic.waiting.drop_oldest()
            topic.waiting.add(own["ack"], message_id, None)
        if topic.lost:
            own[_LOST], topic.lost = topic.lost, ""
            self._routes.clear()
        begin = topic.heads[0 if has_destination else 1] + encode_headers(own, self._version)
        self._output.add_fan([begin], rest)

    def _next_ack(self, number: int) -> str:
        self._last_ack += 1
        return f"{number}-{self._last_ack}"

    def _on_horizons(self, frame: Horizons) -> None:
        """Everything of a pubend below a tick has been sent; says that it is received, unless some topic is behind.

        What was said of all topics before the broker knew one of them does not concern that one.
        """
        named = {number for (number,) in _NUMBER.iter_unpack(frame.numbers)}
        begun = self._begun.setdefault(frame.pubend, set())
        if frame.is_only:
            begun.update(number for number in named if number in self._topics)
        # Counted, not compared: there may be thousands of topics, and each of them is named once for each pubend.
        wanting = self._wanting[""] + self._wanting[self._names.get(frame.pubend, "")]
        concerned = len(named & begun) if frame.is_only else len(begun) - len(named & begun)
        if 0 < wanting <= concerned:
            self.outgoing.append(Acknowledge(((frame.pubend, frame.tick),)))

    def _on_lost(self, frame: Lost) -> Lost | None:
        pubend = self._names.get(frame.pubend, "")
        for number in frame.numbers:
            topic = self._topics.get(number)
            if topic is not None:
                topic.lost = _lost(pubend, frame.first, frame.last, topic.lost)
                self._routes.clear()
        others = tuple(number for number in frame.numbers if number not in self._topics)
        return Lost(frame.pubend, frame.first, frame.last, others) if others else None

    def pump(self) -> None:
        """Write out what has arrived for what the session holds, as far as its client keeps up with acknowledging."""
        for held in list(self._held.values()):
            inbox = held.inbox
            if inbox.state == "refused" and not held.is_closing:
                raise self._refusal(held.request, inbox.number, inbox.reason)
            if inbox.is_over:
                del self._held[inbox.number]
            elif held.is_closing:
                self._withdraw_if_settled(held)
            elif inbox.queue:
                self._write_out(held)

    def _write_out(self, held: Held) -> None:
        inbox = held.inbox
        was_blocking = inbox.blocking
        if held.request.ack == AUTO:
            if held.unwritten:
                # What counts as read is told from what does not by batches.
                return
            held.unwritten = inbox.pop_many()
            for message in held.unwritten:
                self._write(held, message)
        else:
            while inbox.queue and self._may_wait_for_more(held):
                self._write(held, inbox.pop())
            if inbox.receipts is not None:
                self._resident.on_moved(inbox)
        if was_blocking:
            self._resident.on_taken(inbox)

    def _may_wait_for_more(self, held: Held) -> bool:
        """Whether its client may get another message before it acknowledges any: those that wait are kept."""
        waiting = held.waiting
        return len(waiting) < self._settings.unacknowledged_max and waiting.size < _UNACKNOWLEDGED_BYTES_MAX

    @property
    def has_unwritten(self) -> bool:
        """Whether messages that need no ACK wait to be written: if the connection is lost now, they come again."""
        return any(held.unwritten for held in self._held.values())

    def on_written(self) -> None:
        """All that was to be written has been: what needs no ACK counts as acknowledged."""
        for held in self._held.values():
            written, held.unwritten = held.unwritten, []
            if not written:
                continue
            if held.inbox.work is not None:
                for message in written:
                    if isinstance(message, HandedOut):
                        held.inbox.work.judge(message, Verdict.DONE)
            elif held.inbox.receipts is not None:
                held.inbox.receipts.settle()
                self._resident.on_moved(held.inbox)

    def _write(self, held: Held, message: Received) -> None:
        rendered = self._render(message.body, message.pubend, message.tick, is_guaranteed=message.is_guaranteed)
        own: dict[str, str] = {}
        if held.request.ack != AUTO:
            own["ack"] = self._next_ack(held.inbox.number)
            held.waiting.add(own["ack"], rendered.message_id, message)
        if message.attempt > 1:
            own["redelivered"] = "true"
            own["penstock-attempt"] = str(message.attempt)
        if held.inbox.lost_count > held.lost_count:
            own[_LOST] = _lost_since(held)
            held.lost_count = held.inbox.lost_count
        begin = held.heads[0 if rendered.has_destination else 1] + encode_headers(own, self._version)
        self._output.add_fan([begin], rendered.rest)


def _pubends(request: Request) -> tuple[str, ...]:
    only = _only_pubend(request)
    return (only,) if only else ()


def _only_pubend(request: Request) -> str:
    """The only pubend whose messages a subscription wants; empty if it wants those of all."""
    return request.destination.name if request.destination.kind == "pubend" else ""


def _lost(pubend: str, first: int, last: int, before: str) -> str:
    told = f"{pubend} {format_tick(Tick(first))} to {format_tick(Tick(last))}"
    return f"{before}; {told}"[-1_000:] if before else told


def _lost_since(held: Held) -> str:
    """What was lost since its client was told of it the last time: the newest, if it is very much."""
    notices = [*held.inbox.lost][held.lost_count - held.inbox.lost_count :]
    told = ""
    for each in notices:
        told = _lost(each.pubend, each.first, each.last, told)
    return told


def _are_all(kept: list[IsKept]) -> bool:
    """Whether all of these are kept; those that are need not be asked again."""
    while kept and kept[-1]():
        kept.pop()
    return not kept


def _at_once() -> bool:
    return True


def _pending(pubends: Iterable[str]) -> dict[str, str]:
    """Says in a receipt from which pubends nothing comes yet."""
    named = " ".join(pubends)
    return {_PENDING: named} if named else {}


def _is_in_force(held: Held) -> bool:
    return held.inbox.state == "ready" or held.is_closing


def _count(said: Sequence[Said]) -> bool:
    """Whether all that was said of messages counts."""
    if any(each.outcome is not None and each.outcome is not Outcome.KEPT for each in said):
        raise StompError("the message is not this subscription's any more: its time was over")
    return all(each.outcome is Outcome.KEPT for each in said)
