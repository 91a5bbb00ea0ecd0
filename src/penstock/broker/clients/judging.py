"""Checks the messages of a publisher one by one, and splits a batch where the result changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from penstock.broker.peers import Guest
from penstock.broker.pubends import Pubends
from penstock.model.errors import MisuseError
from penstock.model.message import Message
from penstock.model.values import AttributeValue
from penstock.protocol.frames import Publish
from penstock.selectors.selector import EVERYTHING

__all__ = ["Judge", "Part", "parts"]

_KNOWN_NAMES_MAX: Final = 10_000
"""Most attribute names that are remembered as good."""
_NUMBER_BYTES: Final = 4
_IDENTITY_BYTES: Final = 8
"""An identifier begins with the numbers of the publisher and of the broker; its time follows."""
_TIME_END: Final = 14
_TIME_LAST: Final = (253_402_300_799_999).to_bytes(6)
"""The last millisecond of the year 9999: later ones are no dates in Python, nor in Spark."""
_FORMER_MAX: Final = 16
"""Most brokers at which a publisher may have made identifiers that it publishes here, since it moved or came back."""


@dataclass(slots=True, frozen=True)
class Part:
    """Consecutive messages of one batch that are all good, or all refused for the same reason."""

    frame: Publish
    reason: str
    """Empty if they are good."""


class Judge:
    """Decides what may be published."""

    def __init__(self, pubends: Pubends) -> None:
        self._pubends = pubends
        self._known_names: set[str] = set()

    def problems(
        self, guest: Guest, frame: Publish, pubend: str | None, decoded: list[dict[str, AttributeValue]]
    ) -> dict[int, str]:
        """Why messages are refused, by their place in the batch; empty if all are good, as nearly always."""
        if pubend is None or guest.rule.publish is None:
            return dict.fromkeys(range(len(decoded)), self._problem_with_all(guest, frame, pubend))
        heads = [body[:_TIME_END] for body in frame.bodies]
        if guest.rule.publish is EVERYTHING and self._are_good(guest, heads, decoded):
            return {}
        problems: dict[int, str] = {}
        for place, (head, attributes) in enumerate(zip(heads, decoded, strict=True)):
            if problem := self._problem_with(guest, head, attributes):
                problems[place] = problem
        return problems

    def _are_good(self, guest: Guest, heads: list[bytes], decoded: list[dict[str, AttributeValue]]) -> bool:
        """Whether all messages have names known to be good, and this publisher's prefix and a valid date."""
        are_known = self._known_names.issuperset
        last: dict[str, AttributeValue] | None = None
        for attributes in decoded:
            # Messages with the same attributes share them.
            if attributes is not last:
                if not are_known(attributes):
                    return False
                last = attributes
        return guest.identity <= min(heads) and max(heads) <= guest.identity + _TIME_LAST

    def _problem_with(self, guest: Guest, head: bytes, attributes: dict[str, AttributeValue]) -> str:
        is_own = guest.identity <= head <= guest.identity + _TIME_LAST
        if not is_own and (problem := _problem_with_id(guest, head)):
            return problem
        for name in attributes:
            if name not in self._known_names and (problem := self._problem_with_name(name)):
                return problem
        allowed = guest.rule.publish
        if allowed is not None and allowed is not EVERYTHING and not allowed.matches(attributes):
            return f"client {guest.client} may not publish this; it may publish: {allowed}"
        return ""

    def _problem_with_all(self, guest: Guest, frame: Publish, pubend: str | None) -> str:
        if pubend is None:
            known = ", ".join(self._pubends.names)
            return f"no pubend {frame.pubend!r} here, only {known}" if known else "this broker hosts no publishers"
        return f"client {guest.client} may not publish"

    def _problem_with_name(self, name: str) -> str:
        """Says why no message may have an attribute of this name; remembers names without a problem."""
        try:
            Message({name: None})
        except MisuseError as error:
            return str(error)
        if len(self._known_names) >= _KNOWN_NAMES_MAX:
            self._known_names.clear()
        self._known_names.add(name)
        return ""


def _problem_with_id(guest: Guest, head: bytes) -> str:
    """Says why a message may not have an identifier with this beginning; empty if it may."""
    if head[_IDENTITY_BYTES:] > _TIME_LAST:
        return "the identifier of the message is from beyond the year 9999"
    if head[:_NUMBER_BYTES] != guest.identity[:_NUMBER_BYTES]:
        number = int.from_bytes(head[:_NUMBER_BYTES])
        return (
            f"the message identifier belongs to publisher {number}, but this connection is publisher {guest.publisher}"
        )
    if len(guest.former) >= _FORMER_MAX and head[:_IDENTITY_BYTES] not in guest.former:
        return f"the identifiers of this connection's messages name more than {_FORMER_MAX} brokers"
    guest.former.add(head[:_IDENTITY_BYTES])
    return ""


def parts(frame: Publish, problems: Mapping[int, str]) -> list[Part]:
    """Splits a batch into parts, in the order of their numbers."""
    found: list[Part] = []
    for reason, places in groupby(range(len(frame.bodies)), key=lambda place: problems.get(place, "")):
        first, *others = places
        bodies = frame.bodies[first : first + 1 + len(others)]
        found.append(Part(Publish(frame.first + first, bodies, frame.pubend), reason))
    return found
