"""Traces messages over the overlay: where they came from, which path they took, who got them ([Tracking] section 3.3).

The broker of the client that asks leads the search (``Reconstruction``); every broker answers for itself, from memory
and from its store. In an overlay of moderate size all brokers are asked at once, so that a long path costs one round
trip and not one for each hop; in a larger one, only those that the search reaches. Brokers that do not answer are
named.

If a broker does not answer, or the origin named by the id has not published the message, all brokers are asked: others
know which links the silent one had, and whether the message was published elsewhere (an alias).

A trace reveals who received what, and costs every broker some work: it needs its own permission, and the traces under
way and those that begin in a second are limited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from penstock.broker.due import Due
from penstock.broker.effects import ReadKept
from penstock.broker.mechanisms.tracker import Tracker
from penstock.broker.peers import Peer
from penstock.broker.rooms import Rooms
from penstock.model.decoding import UnreadableError, decoded
from penstock.model.message_id import MessageId
from penstock.protocol.trace_frames import TraceAnswer, TraceQuestion, TraceReply, TraceRequest
from penstock.tracking.answering import Inquiry
from penstock.tracking.answers import BrokerAnswer, Evidence, GapSeen, trace_json
from penstock.tracking.reconstruct import Reconstruction

__all__ = ["TraceDesk"]

_QUESTION_MS: Final = 2_000
"""How long to wait for a broker's answer."""
_TRACES_MAX: Final = 64
_TRACES_OF_ONE_MAX: Final = 4
"""Most traces of one client, by its name, that may be under way: each asks many brokers."""
_TRACES_PER_S: Final = 50
"""Traces that may begin in a second, for all clients of a broker."""
_BURST: Final = 100
"""Traces that may begin at once after a quiet time."""
_INQUIRIES_MAX: Final = 1_000
_RECEIVERS_MAX: Final = 10_000
"""Most receivers that a broker names; further ones are reported as a gap."""
_HOPS_MAX: Final = 255
"""Ends loops: while paths change, two brokers may each think that the other one is nearer."""
_AT_ONCE_MAX: Final = 64
"""The largest overlay in which all brokers are asked before the search reaches them."""

_decode: Final = msgspec.msgpack.Decoder(BrokerAnswer).decode
_encode: Final = msgspec.msgpack.encode


@dataclass(slots=True)
class _Tracing:
    """A search for a client."""

    connection: int
    number: int
    message_id: MessageId
    origin: str
    links: dict[str, tuple[str, ...]]
    """The links that the search knows; more become known of brokers that do not answer."""
    search: Reconstruction
    asked: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By broker, the origins in the question it was asked."""
    questions: dict[int, str] = field(default_factory=dict)
    """The broker asked, by the number of the question; only the last question to each broker counts."""
    answers: dict[str, BrokerAnswer] = field(default_factory=dict)
    """Answers that came before the search reached their broker."""
    due_ms: dict[str, int] = field(default_factory=dict)
    """By broker that has not answered: when to give up on it."""
    silent: dict[str, None] = field(default_factory=dict)
    is_going: bool = False
    """Guards against reentry: answers of this broker itself come in the middle of a step."""

    def is_clear(self, broker: str) -> bool:
        """Whether a broker's answer needs nothing from others."""
        answer = self.answers.get(broker)
        return answer is not None and (broker != self.origin or answer.published is Evidence.YES)

    def settle(self, broker: str) -> None:
        """Gives the search a broker's answer or silence, and what others know about it."""
        answer = self.answers.get(broker)
        if answer is None:
            others = [each.broker for each in self.answers.values() if broker in each.neighbours]
            self.links[broker] = tuple(dict.fromkeys((*self.links.get(broker, ()), *others)))
            self.search.on_unreachable(broker)
        elif self.is_clear(broker):
            self.search.on_answer(answer)
        else:
            alias = next((each.alias for each in self.answers.values() if each.alias is not None), None)
            self.search.on_answer(replace(answer, alias=alias))


@dataclass(slots=True)
class _Inquiring:
    """A question that waits for the store."""

    asker: str
    number: int
    inquiry: Inquiry
    values: dict[str, bytes | None] = field(default_factory=dict)
    """The records read for it so far."""


class TraceDesk:
    """One broker's part in tracing."""

    def __init__(self, rooms: Rooms, tracker: Tracker, *, refuse: Callable[[Peer, str, int, str], None]) -> None:
        self._name, self._rooms, self._tracker, self._refuse = rooms.settings.name, rooms, tracker, refuse
        # Answers to questions of an earlier life must not match ours.
        self._last = rooms.filters.incarnation << 20
        self._tracings: dict[int, _Tracing] = {}
        self.due = Due(self.next_deadline)
        self._questions: dict[int, int] = {}
        """The trace that each question belongs to."""
        self._inquiries: dict[int, _Inquiring] = {}
        self._reads = 0
        self._effects: list[ReadKept] = []
        self._budget, self._budget_ms = float(_BURST), 0
        self.counts = {
            **dict.fromkeys(("traces", "traces_refused", "trace_questions"), 0),
            **dict.fromkeys(("trace_questions_dropped", "trace_answers_ignored"), 0),
        }

    # --- clients ask

    def on_request(self, peer: Peer, frame: TraceRequest, *, now_ms: int) -> None:
        """Starts a trace for a client, or refuses it."""
        assert peer.guest is not None
        message_id = MessageId.from_bytes(frame.message_id)
        origin = self._rooms.topology.name_of(message_id.broker)
        problem = self._problem(peer, message_id, origin, now_ms)
        if problem or origin is None:
            self.counts["traces_refused"] += 1
            self._refuse(peer, "trace", frame.number, problem)
            return
        self._budget -= 1
        self.counts["traces"] += 1
        number = self._last = self._last + 1
        links = dict(self._rooms.topology.graph())
        search = Reconstruction(message_id, origin, topology=links)
        tracing = _Tracing(peer.connection, frame.number, message_id, origin, links, search)
        self._tracings[number] = tracing
        if len(links) <= _AT_ONCE_MAX:
            self._ask_all(number, tracing, now_ms)
        self._go_on(number, now_ms)

    def _problem(self, peer: Peer, message_id: MessageId, origin: str | None, now_ms: int) -> str:
        assert peer.guest is not None
        session = peer.guest
        if not session.rule.trace:
            return f"client {session.client} may not trace messages"
        if origin is None:
            return f"message {message_id} names broker number {message_id.broker}, which is unknown here"
        ahead_ms = message_id.timestamp_ms - now_ms
        if ahead_ms > self._rooms.settings.tracking.late_ms + 60_000:
            return f"the timestamp of message {message_id} is {ahead_ms:,} ms in the future"
        client_of = self._rooms.connections.client_of
        mine = sum(client_of(each.connection) == peer.name for each in self._tracings.values())
        if mine >= _TRACES_OF_ONE_MAX or len(self._tracings) >= _TRACES_MAX:
            return f"too many traces are under way ({mine} of this client), try again"
        elapsed_ms = max(now_ms - self._budget_ms, 0)
        self._budget, self._budget_ms = min(_BURST, self._budget + elapsed_ms * _TRACES_PER_S / 1_000), now_ms
        if self._budget < 1:
            return f"more than {_TRACES_PER_S} traces in a second, try again"
        return ""

    # --- brokers ask, and answer

    def on_question(self, frame: TraceQuestion, *, now_ms: int) -> None:
        """Answers a broker's question, or forwards it if it is for another broker."""
        if frame.to != self._name:
            self._pass_on(frame)
            return
        self.counts["trace_questions"] += 1
        if len(self._inquiries) >= _INQUIRIES_MAX:
            self.counts["trace_questions_dropped"] += 1
            return
        message_id = MessageId.from_bytes(frame.message_id)
        tracker = self._tracker
        neighbours = tracker.neighbours_since(message_id.timestamp_ms)
        upstream = tracker.upstream_since(message_id.broker, message_id.timestamp_ms)
        inquiry = tracker.answerer().inquire(
            message_id, frame.origins, neighbours=neighbours, upstream=upstream, now_ms=now_ms
        )
        self._inquire(_Inquiring(frame.asker, frame.number, inquiry), now_ms)

    def on_answer(self, frame: TraceAnswer, *, now_ms: int) -> None:
        """Takes a broker's answer, or forwards it if another broker asked. Ignores answers that match no question."""
        if frame.to != self._name:
            self._pass_on(frame)
            return
        number = self._questions.get(frame.number, 0)
        tracing = self._tracings.get(number)
        answer = None if tracing is None else _answer_in(frame)
        if tracing is None or answer is None or tracing.questions.get(frame.number) != answer.broker:
            self.counts["trace_answers_ignored"] += 1
            return
        self._settle(tracing, answer.broker)
        tracing.answers[answer.broker] = answer
        self._go_on(number, now_ms)

    # --- the shell

    def take_effects(self) -> list[ReadKept]:
        """Returns the reads for the shell."""
        effects, self._effects = self._effects, []
        return effects

    def on_kept_read(self, number: int, values: dict[str, bytes | None], *, now_ms: int) -> None:
        """Continues an inquiry with the records read for it."""
        inquiring = self._inquiries.pop(number, None)
        if inquiring is None:
            return
        inquiring.values |= values
        missing = tuple(name for name in inquiring.inquiry.needs if name not in inquiring.values)
        if missing:
            # They did not fit into one answer.
            self._read(inquiring, missing)
            return
        values, inquiring.values = inquiring.values, {}
        inquiring.inquiry.on_loaded(values)
        self._inquire(inquiring, now_ms)

    def next_deadline(self) -> int | None:
        """When to give up on the next broker."""
        if not self._tracings:
            return None
        return min((due for each in self._tracings.values() for due in each.due_ms.values()), default=None)

    def on_deadline(self, *, now_ms: int) -> None:
        """Gives up on brokers that have not answered in time."""
        for number, tracing in list(self._tracings.items()):
            late = [broker for broker, due_ms in tracing.due_ms.items() if due_ms <= now_ms]
            for broker in late:
                self._settle(tracing, broker)
                tracing.silent[broker] = None
            if late:
                self._go_on(number, now_ms)

    def forget(self, connection: int) -> None:
        """Ends the traces of a client that is gone."""
        for number, each in list(self._tracings.items()):
            if each.connection == connection:
                self._end(number)

    # --- inside

    def _go_on(self, number: int, now_ms: int) -> None:
        """Feeds the search what is known, asks what it wants to know, and answers the client when it is done."""
        tracing = self._tracings.get(number)
        if tracing is None or tracing.is_going:
            return
        search, tracing.is_going = tracing.search, True
        while True:
            for ask in search.asks():
                if tracing.asked.get(ask.broker) != ask.origins:
                    self._ask(number, tracing, ask.broker, ask.origins, now_ms)
            settled = [each for each in search.pending if tracing.is_clear(each)]
            if not settled:
                settled = [each for each in search.pending if each in tracing.answers or each in tracing.silent]
                if not settled or not self._knows_all(number, tracing, now_ms):
                    break
            for broker in settled:
                tracing.settle(broker)
        tracing.is_going = False
        if search.is_done:
            self._end(number)
            peer = self._rooms.connections.peers.get(tracing.connection)
            if peer is not None:
                self._rooms.connections.say(peer, TraceReply(tracing.number, trace_json(search.result())))

    def _ask_all(self, number: int, tracing: _Tracing, now_ms: int) -> None:
        was_going, tracing.is_going = tracing.is_going, True
        for broker in self._rooms.topology.graph():
            if broker not in tracing.asked:
                self._ask(number, tracing, broker, (tracing.message_id.broker,), now_ms)
        tracing.is_going = was_going

    def _knows_all(self, number: int, tracing: _Tracing, now_ms: int) -> bool:
        """Whether all brokers have been asked, and have answered or been given up."""
        self._ask_all(number, tracing, now_ms)
        return not tracing.due_ms

    def _ask(self, number: int, tracing: _Tracing, broker: str, origins: tuple[int, ...], now_ms: int) -> None:
        self._settle(tracing, broker)
        tracing.asked[broker] = origins
        tracing.answers.pop(broker, None)
        tracing.silent.pop(broker, None)
        # A new number: an answer to an earlier question that is still on its way must not match this one.
        self._last += 1
        tracing.questions[self._last], self._questions[self._last] = broker, number
        tracing.due_ms[broker] = due_ms = now_ms + _QUESTION_MS
        self.due.by(due_ms)
        question = TraceQuestion(broker, self._name, self._last, tracing.message_id.to_bytes(), origins)
        if broker == self._name:
            self.on_question(question, now_ms=now_ms)
        elif not self._post(broker, question):
            self._settle(tracing, broker)
            tracing.silent[broker] = None

    def _settle(self, tracing: _Tracing, broker: str) -> None:
        """Drops the open question to a broker, if any."""
        if tracing.due_ms.pop(broker, None) is not None:
            question = next(number for number, asked in tracing.questions.items() if asked == broker)
            del tracing.questions[question], self._questions[question]

    def _end(self, number: int) -> None:
        for question in self._tracings.pop(number).questions:
            del self._questions[question]

    def _inquire(self, inquiring: _Inquiring, now_ms: int) -> None:
        inquiry = inquiring.inquiry
        if inquiry.answer is None:
            self._read(inquiring, inquiry.needs)
            return
        answer = TraceAnswer(inquiring.asker, inquiring.number, _encode(_bounded(inquiry.answer)))
        if inquiring.asker == self._name:
            self.on_answer(answer, now_ms=now_ms)
        else:
            self._post(inquiring.asker, answer)

    def _read(self, inquiring: _Inquiring, names: tuple[str, ...]) -> None:
        self._reads += 1
        self._inquiries[self._reads] = inquiring
        self._effects.append(ReadKept(self._reads, names))

    def _pass_on(self, frame: TraceQuestion | TraceAnswer) -> None:
        if frame.hops < _HOPS_MAX:
            self._post(frame.to, msgspec.structs.replace(frame, hops=frame.hops + 1))

    def _post(self, broker: str, frame: TraceQuestion | TraceAnswer) -> bool:
        """Sends a frame one hop towards a broker; returns False if there is no path to it."""
        # Every broker has a system stream; in its tree, the parent leads to that broker.
        hop = self._rooms.connections.links.get(self._rooms.router.place_in(f"${broker}").parent or "")
        if hop is not None:
            self._rooms.connections.say(hop, frame)
        return hop is not None


def _answer_in(frame: TraceAnswer) -> BrokerAnswer | None:
    try:
        return decoded(_decode, frame.answer)
    except UnreadableError:
        # Not the fault of the neighbour that forwarded it: its sender is given up in time.
        return None


def _bounded(answer: BrokerAnswer) -> BrokerAnswer:
    if len(answer.receivers) <= _RECEIVERS_MAX:
        return answer
    gap = GapSeen(answer.broker, "receivers", "too many to name")
    return replace(answer, receivers=answer.receivers[:_RECEIVERS_MAX], gaps=(*answer.gaps, gap))
