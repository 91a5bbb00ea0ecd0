"""Finds the newest message of each key in the logs of all pubends, for a subscription that begins right after them.

The client reads the logs up to where they end, before it subscribes: what is in a log never changes, and a subscription
may begin at any tick that is kept, so nothing is missing in between and nothing comes twice. Messages that come in
during a long scan are scanned in another, shorter round. Memory is bounded by the number of keys and the size of their
messages.

A pubend may keep last values of what was trimmed from its log, too. There the scan begins at the first tick there ever
was, and gets them in place of the trimmed messages. A log may be trimmed while it is scanned, also right beyond the
last tick of the round: then a value may be missing that a newer one has replaced, which lies further on. So a round
in which trimmed ticks were read is never the last one, unless there were too many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.model.body import decode_attributes
from penstock.model.expiry import expires_at_ms
from penstock.model.keys import Key, key_of
from penstock.protocol.frames import Frame, LogAnswer, ReadRequest, Refused, SurveyReply, SurveyRequest
from penstock.session.positions import LostTicks
from penstock.session.received import Received

__all__ = ["AGAIN_MS", "BYTES_MAX", "KEYS_MAX", "PAUSE_MS", "LastValues"]

KEYS_MAX: Final = 1_000_000
BYTES_MAX: Final = 256 * 1024 * 1024
"""Most memory for the messages that are kept while logs are read."""
AGAIN_MS: Final = 5_000
"""How long to wait before asking again: an answer may get lost on its way."""
PAUSE_MS: Final = 1_000
"""How long to wait for a pubend that is out of reach."""
_READ_BYTES: Final = 512 * 1024
_MESSAGE_BYTES: Final = 200
_ROUNDS_MAX: Final = 10
"""Where messages come in as fast as they are read, this many rounds are enough."""
_UNKNOWN: Final = "no guaranteed pubend"
"""How a broker's refusal begins that does not know the pubend, or not yet."""


class LastValues:
    """The scan for one subscription: asks one question at a time, over as many connections as it takes."""

    def __init__(
        self,
        selector: str,
        key: str,
        pubends: tuple[str, ...] = (),
        *,
        keys_max: int = KEYS_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._selector, self._key, self._pubends = selector, key, pubends
        self._keys_max, self._bytes_max = keys_max, bytes_max
        self._next: dict[str, int] = {}
        """By pubend, the first tick that was not read."""
        self._until: dict[str, int] = {}
        """By pubend, the last tick to be read in this round."""
        self._newest: dict[Key, Received] = {}
        self._size = 0
        self._parts = self._rounds = 0
        self._was_trimmed = False
        """Whether trimmed ticks were read in this round."""
        self.lost: Final[list[LostTicks]] = []
        """Ticks that were trimmed or damaged when they were to be read."""
        self.problem = ""
        """Why it cannot be done."""
        self.pauses = False
        """Whether to wait for ``PAUSE_MS`` before the next question."""
        self.is_done = False

    def question(self) -> Callable[[int], Frame]:
        """The next question, given its number."""
        assert not self.is_done, "nothing is left to ask"
        for pubend, until in self._until.items():
            first = self._next[pubend]
            if first <= until:
                selector, key = self._selector, self._key
                return lambda number: ReadRequest(number, pubend, first, until, selector, _READ_BYTES, key)
        return lambda number: SurveyRequest(number, self._key)

    def on_answer(self, answer: object, *, now_ms: int) -> None:
        """Takes the answer; the time is that of the broker's clock, by which messages expire."""
        self.pauses = False
        match answer:
            case SurveyReply():
                self._on_survey(answer)
            case LogAnswer():
                self._on_part(answer, now_ms)
            case Refused():
                self._on_refused(answer)

    def positions(self) -> dict[str, int]:
        """By pubend, the first tick that was not read: there the subscription begins."""
        return dict(self._next)

    def values(self) -> list[Received]:
        """The newest message of each key, in the order of their ticks."""
        return sorted(self._newest.values(), key=_order)

    def _on_survey(self, reply: SurveyReply) -> None:
        if any(map(self._wants, reply.unreachable)):
            # Without them nobody knows which message is the newest.
            self.pauses = True
            return
        self._rounds += 1
        self._parts = 0
        self._was_trimmed = False
        self._until = {}
        for pubend, earliest, latest in reply.spans:
            if self._wants(pubend):
                self._next.setdefault(pubend, 0 if pubend in reply.keeping else earliest)
                self._until[pubend] = latest
        self._settle()

    def _wants(self, pubend: str) -> bool:
        return not self._pubends or pubend in self._pubends

    def _on_refused(self, answer: Refused) -> None:
        if answer.reason.startswith(_UNKNOWN):
            # The broker has just started, or is another one: it will hear of the pubend.
            self._until = {}
            self.pauses = True
        else:
            self.problem = answer.reason

    def _on_part(self, answer: LogAnswer, now_ms: int) -> None:
        pubend = answer.pubend
        if answer.first != self._next.get(pubend):
            # Another answer to a question that was repeated.
            return
        self._parts += 1
        self._was_trimmed = self._was_trimmed or answer.is_compacted
        self.lost.extend(LostTicks(pubend, first, last) for first, last in answer.lost)
        for tick, body in zip(answer.ticks, answer.bodies, strict=True):
            self._look_at(pubend, tick, body, now_ms)
        if answer.last < answer.first:
            # The log ends before this tick, for now.
            self._until = {}
            self.pauses = True
        self._next[pubend] = max(answer.last + 1, answer.first)
        self._settle()

    def _look_at(self, pubend: str, tick: int, body: bytes, now_ms: int) -> None:
        attributes = decode_attributes(body)
        value = attributes.get(self._key)
        end_ms = expires_at_ms(body, attributes)
        if value is None or (end_ms is not None and end_ms <= now_ms):
            return
        key = key_of(value)
        received = Received(pubend, tick, body)
        known = self._newest.get(key)
        if known is not None:
            if _order(known) > _order(received):
                return
            self._size -= len(known.body) + _MESSAGE_BYTES
        self._newest[key] = received
        self._size += len(body) + _MESSAGE_BYTES
        if len(self._newest) > self._keys_max:
            self.problem = f"attribute {self._key!r} has more than {self._keys_max:,} values, which is the limit"
        elif self._size > self._bytes_max:
            self.problem = (
                f"the newest messages of all values of {self._key!r} have more than {self._bytes_max:,} bytes, "
                "which is the limit"
            )

    def _settle(self) -> None:
        """Ends a round in which everything was read; the scan, if no more than a little can have come in meanwhile."""
        if self.pauses or any(self._next[pubend] <= until for pubend, until in self._until.items()):
            return
        has_caught_up = self._parts <= len(self._until) and not self._was_trimmed
        self.is_done = has_caught_up or self._rounds >= _ROUNDS_MAX


def _order(received: Received) -> tuple[int, str]:
    return received.tick, received.pubend
