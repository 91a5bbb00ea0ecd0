"""Reads logs between two ticks, for clients that need repeatable reads: batch jobs and archives.

A client asks its host, the host asks the pubend up its tree, the answer comes down the same path. A request is small
and an answer bounded; whoever gets none in time asks again. Nothing here holds a log: what was trimmed is reported as
lost, unless the pubend keeps the last values that are looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.broker.due import Due
from penstock.broker.effects import ReadLog
from penstock.broker.neighbours.ways import Ways
from penstock.broker.peers import Guest, Peer
from penstock.broker.pubend.last_values import LastView
from penstock.broker.pubend.log import PubendLog
from penstock.broker.pubend.serving import LogServing
from penstock.broker.rooms import Rooms
from penstock.model.tick import TickRange
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import (
    LogAnswer,
    LogRequest,
    LogSpan,
    ReadRequest,
    SurveyReply,
    SurveyRequest,
)
from penstock.selectors.errors import SelectorError
from penstock.selectors.selector import EVERYTHING, Selector

__all__ = ["LogDesk"]

_ANSWER_MS: Final = 15_000
"""How long an answer is expected; a client that still wants it has asked again by then."""
_SURVEY_MS: Final = 2_000
"""Pubends that have not answered within this time count as out of reach."""
_PENDING_MAX: Final = 16
"""Most pending requests of one connection."""
_CLIENT_PENDING_MAX: Final = 256
"""Most pending requests of one client, by its name: a job reads with many connections at a time."""


@dataclass(slots=True, frozen=True)
class _Reading:
    """A client's request to read a log."""

    connection: int
    frame: ReadRequest
    end_ms: int

    def is_answered_by(self, frame: LogAnswer) -> bool:
        asked = self.frame
        return frame.pubend == asked.pubend and frame.first == asked.first and frame.last <= asked.last


@dataclass(slots=True)
class _Survey:
    """A client's request for the spans of all pubends' logs."""

    connection: int
    number: int
    end_ms: int
    pending: dict[str, None]
    away: tuple[str, ...]
    spans: list[tuple[str, int, int]] = field(default_factory=list)
    keeping: list[str] = field(default_factory=list)


class LogDesk:
    """One broker's part in reading logs."""

    def __init__(
        self,
        rooms: Rooms,
        logs: Mapping[str, PubendLog],
        views: Mapping[str, LastView],
        *,
        refuse: Callable[[Peer, str, int, str], None],
    ) -> None:
        self._name = rooms.settings.name
        self._rooms = rooms
        self._logs = logs
        self._refuse = refuse
        self._ways = Ways(rooms, logs)
        self._serving = LogServing(logs, views, send=self._answer)
        # Answers to questions of an earlier life must not match ours.
        self._last = rooms.filters.incarnation << 20
        self._readings: dict[int, _Reading] = {}
        self._surveys: dict[int, _Survey] = {}
        self.due = Due(self.next_deadline)

    @property
    def counts(self) -> dict[str, int]:
        """Event counters."""
        return self._serving.counts

    # --- clients ask

    def on_read_request(self, peer: Peer, frame: ReadRequest, *, now_ms: int) -> None:
        """Sends a client's request for a part of a log to its pubend."""
        assert peer.guest is not None
        problem, selector = self._problem(peer, peer.guest, frame)
        if problem:
            self._refuse(peer, "read", frame.number, problem)
            return
        number = self._same(peer.connection, frame)
        if number is None:
            self._last = number = self._last + 1
        self._readings[number] = _Reading(peer.connection, frame, now_ms + _ANSWER_MS)
        self.due.by(now_ms + _ANSWER_MS)
        size = max(frame.bytes_max, 1)
        ticks = (frame.first, frame.last)
        self.on_request(LogRequest(frame.pubend, self._name, number, *ticks, size, selector, frame.key))

    def on_survey_request(self, peer: Peer, frame: SurveyRequest, *, now_ms: int) -> None:
        """Asks all pubends for the spans of their logs, for a client."""
        assert peer.guest is not None
        if peer.guest.rule.subscribe is None:
            self._refuse(peer, "read", frame.number, f"client {peer.guest.client} may not subscribe")
            return
        if problem := self._too_many(peer):
            self._refuse(peer, "read", frame.number, problem)
            return
        pubends = list(self._rooms.topology.guaranteed())
        self._last += 1
        number = self._last
        # No need to wait for those without a path.
        away = [each for each in pubends if not self._ways.leads_to(each)]
        if frame.key:
            # A subscription begins with all that is in the logs of pubends it hears of later, but not with last values.
            views = self._rooms.settings.all_last_values
            away += [each for each, key in views if key == frame.key and each not in pubends]
        asked = [each for each in pubends if each not in away]
        end_ms = now_ms + _SURVEY_MS
        self.due.by(end_ms)
        pending = dict.fromkeys(asked)
        self._surveys[number] = _Survey(peer.connection, frame.number, end_ms, pending, tuple(away))
        for pubend in asked:
            self.on_request(LogRequest(pubend, self._name, number, 0, 0, key=frame.key))
        self._settle(number)

    def _problem(self, peer: Peer, guest: Guest, frame: ReadRequest) -> tuple[str, str]:
        """Returns why a client cannot read, or an empty string and the selector narrowed to what it may see."""
        if guest.rule.subscribe is None:
            return f"client {guest.client} may not subscribe", ""
        if frame.first > frame.last:
            return f"ticks {frame.first} to {frame.last} are not a valid range", ""
        topology, links = self._rooms.topology, self._rooms.connections.links
        if not topology.is_guaranteed(frame.pubend) and all(each in links for each in self._rooms.settings.neighbours):
            known = ", ".join(topology.guaranteed()) or "none"
            return f"no guaranteed pubend {frame.pubend!r} in this overlay; there are: {known}", ""
        if (problem := self._too_many(peer)) and self._same(peer.connection, frame) is None:
            return problem, ""
        try:
            selector = Selector.parse(frame.selector)
            allowed = guest.rule.subscribe
            return "", str(selector if allowed == EVERYTHING else selector & allowed)
        except SelectorError as error:
            return str(error), ""

    def _same(self, connection: int, frame: ReadRequest) -> int | None:
        """The number of the same request, if the client repeats one: a late answer to the first will do."""
        for number, each in self._readings.items():
            if each.connection == connection and each.frame == frame:
                return number
        return None

    def _too_many(self, peer: Peer) -> str:
        """Says why a client may not ask for more at present; empty if it may."""
        asking = [each.connection for each in self._readings.values()]
        asking += [each.connection for each in self._surveys.values()]
        if asking.count(peer.connection) >= _PENDING_MAX:
            return f"{_PENDING_MAX} requests are under way, which is the limit of one connection"
        client_of = self._rooms.connections.client_of
        if sum(client_of(each) == peer.name for each in asking) >= _CLIENT_PENDING_MAX:
            return f"{_CLIENT_PENDING_MAX} requests are under way, which is the limit of one client"
        return ""

    # --- frames of neighbours, and of this broker itself

    def on_request(self, frame: LogRequest) -> None:
        """Serves a host's request, or forwards it."""
        if frame.first > frame.last:
            raise ProtocolError(
                f"a request for the log of {frame.pubend} has an empty range, {frame.first} to {frame.last}"
            )
        if frame.pubend in self._logs:
            self._serving.ask(frame)
        else:
            self._ways.up(frame.pubend, frame)

    def on_span(self, frame: LogSpan) -> None:
        """Takes the span of a pubend's log for a survey, or forwards it."""
        if frame.host != self._name:
            self._ways.down(frame.pubend, frame.host, frame)
            return
        survey = self._surveys.get(frame.number)
        if survey is not None and frame.pubend in survey.pending:
            del survey.pending[frame.pubend]
            survey.spans.append((frame.pubend, frame.earliest, frame.latest))
            if frame.is_keeping:
                survey.keeping.append(frame.pubend)
            self._settle(frame.number)

    def on_answer(self, frame: LogAnswer) -> None:
        """Passes a pubend's answer on to the client or host that asked."""
        if frame.pubend not in self._logs and frame.last >= frame.first:
            self._rooms.memory.note(frame.pubend, frame.last, frame.ticks[-1] if frame.ticks else 0)
        if frame.host != self._name:
            child = self._ways.child(frame.pubend, frame.host)
            if child is not None:
                self._rooms.connections.carry(child, frame)
            return
        reading = self._readings.get(frame.number)
        if reading is None or not reading.is_answered_by(frame):
            return
        del self._readings[frame.number]
        peer = self._rooms.connections.peers.get(reading.connection)
        if peer is not None:
            number, ticks = reading.frame.number, (frame.first, frame.last)
            found = (frame.ticks, frame.bodies, frame.lost)
            answer = LogAnswer(frame.pubend, "", number, ticks, *found, is_compacted=frame.is_compacted)
            self._rooms.connections.carry(peer, answer)

    # --- the shell, time

    def on_read(
        self, number: int, messages: list[tuple[int, bytes]], last: int, damaged: TickRange | None, *, now_ms: int
    ) -> bool:
        """Takes a read of a log that has ended; returns False if it was for somebody else."""
        return self._serving.on_read(number, messages, last, damaged, now_ms=now_ms)

    def take_effects(self) -> list[ReadLog]:
        """Returns the reads for the shell."""
        return self._serving.take_effects()

    def next_deadline(self) -> int | None:
        """When the next request times out."""
        if not self._surveys and not self._readings:
            return None
        wishes = [each.end_ms for each in self._surveys.values()] + [each.end_ms for each in self._readings.values()]
        return min(wishes, default=None)

    def on_deadline(self, *, now_ms: int) -> None:
        """Drops requests that timed out, and answers surveys without the missing pubends."""
        for number in [number for number, each in self._readings.items() if each.end_ms <= now_ms]:
            del self._readings[number]
        for number, survey in list(self._surveys.items()):
            if survey.end_ms <= now_ms:
                self._settle(number, is_over=True)

    def forget(self, connection: int) -> None:
        """Forgets the requests of a client that is gone."""
        self._readings = {number: each for number, each in self._readings.items() if each.connection != connection}
        self._surveys = {number: each for number, each in self._surveys.items() if each.connection != connection}

    # --- inside

    def _settle(self, number: int, *, is_over: bool = False) -> None:
        survey = self._surveys.get(number)
        # Pubends of this broker answer at once, so it may be settled already.
        if survey is None or (survey.pending and not is_over):
            return
        del self._surveys[number]
        peer = self._rooms.connections.peers.get(survey.connection)
        if peer is not None:
            away = (*survey.away, *survey.pending)
            spans, keeping = tuple(sorted(survey.spans)), tuple(survey.keeping)
            reply = SurveyReply(survey.number, spans, away, keeping)
            self._rooms.connections.say(peer, reply)

    def _answer(self, frame: LogSpan | LogAnswer) -> None:
        if isinstance(frame, LogAnswer):
            self.on_answer(frame)
        else:
            self.on_span(frame)
