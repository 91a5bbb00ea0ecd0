"""Checks the messages of a publisher one by one, and says which of a batch are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from penstock.broker.neighbours.topology import Topology
from penstock.broker.peers import Guest, may_have_been
from penstock.broker.pubends import Pubends
from penstock.model.errors import MisuseError
from penstock.model.expiry import EXPIRES, LIFETIME_MS_MAX, is_lifetime
from penstock.model.message import Message
from penstock.model.values import CONVERSING, AttributeValue
from penstock.protocol.frames import Publish
from penstock.selectors.selector import EVERYTHING

__all__ = ["Judge", "refused_parts"]

_KNOWN_NAMES_MAX: Final = 10_000
"""Most attribute names that are remembered as good."""
_SHOWN_MAX: Final = 20
"""Most pubends that a refusal names."""
_NUMBER_BYTES: Final = 4
_IDENTITY_BYTES: Final = 8
"""An identifier begins with the numbers of the publisher and of the broker; its time follows."""
_TIME_END: Final = 14
_TIME_LAST: Final = (253_402_300_799_999).to_bytes(6)
"""The last millisecond of the year 9999: later ones are no dates in Python, nor in Spark."""
_FORMER_MAX: Final = 16
"""Most brokers at which a publisher may have made identifiers that it publishes here, since it moved or came back."""


class Judge:
    """Decides what may be published."""

    def __init__(self, pubends: Pubends, topology: Topology, knows_all: Callable[[], bool]) -> None:
        """``knows_all`` tells whether a pubend that the topology does not know does not exist."""
        self._pubends, self._topology = pubends, topology
        self._knows_all = knows_all
        self._known_names: set[str] = set()

    def problems(
        self, guest: Guest, frame: Publish, pubend: str, decoded: list[dict[str, AttributeValue]]
    ) -> dict[int, str]:
        """Why messages are refused, by their place in the batch; empty if all are good, as nearly always."""
        if guest.rule.publish is None or pubend not in self._pubends.names:
            problem = self._problem_with_all(guest, pubend)
            if problem:
                return dict.fromkeys(range(len(decoded)), problem)
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
                if not are_known(attributes) and not self._is_good_with_lifetime(attributes):
                    return False
                last = attributes
        return guest.identity <= min(heads) and max(heads) <= guest.identity + _TIME_LAST

    def _is_good_with_lifetime(self, attributes: dict[str, AttributeValue]) -> bool:
        """Whether the only name that is not known to be good is that of a valid lifetime."""
        if not is_lifetime(attributes.get(EXPIRES)):
            return False
        return all(name in self._known_names or name == EXPIRES for name in attributes)

    def _problem_with(self, guest: Guest, head: bytes, attributes: dict[str, AttributeValue]) -> str:
        is_own = guest.identity <= head <= guest.identity + _TIME_LAST
        if not is_own and (problem := _problem_with_id(guest, head)):
            return problem
        for name, value in attributes.items():
            if name == EXPIRES:
                if not is_lifetime(value):
                    return f"attribute {EXPIRES!r} must be an integer from 1 to {LIFETIME_MS_MAX:,}"
            elif name not in self._known_names and (problem := self._problem_with_name(name)):
                return problem
        allowed = guest.rule.publish
        if allowed is not None and allowed is not EVERYTHING and not allowed.matches(attributes):
            return f"client {guest.client} may not publish this; it may publish: {allowed}"
        return ""

    def _problem_with_all(self, guest: Guest, pubend: str) -> str:
        if guest.rule.publish is None:
            return f"client {guest.client} may not publish"
        if not pubend:
            return "this broker hosts no pubends, and the message names none"
        if self._topology.origin_of(pubend) is not None or not self._knows_all():
            return ""
        known = ", ".join(sorted(self._topology.pubends())[:_SHOWN_MAX])
        return f"no pubend {pubend!r} in this overlay; there are: {known or 'none'}"

    def _problem_with_name(self, name: str) -> str:
        """Says why no message may have an attribute of this name; remembers names without a problem."""
        if name not in CONVERSING:
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
    number = int.from_bytes(head[:_NUMBER_BYTES])
    if head[:_NUMBER_BYTES] != guest.identity[:_NUMBER_BYTES] and not may_have_been(number, guest.publisher_id):
        return (
            f"the message identifier belongs to publisher {number}, but this connection is publisher {guest.publisher}"
        )
    if len(guest.former) >= _FORMER_MAX and head[:_IDENTITY_BYTES] not in guest.former:
        return f"the identifiers of this connection's messages name more than {_FORMER_MAX} brokers"
    guest.former.add(head[:_IDENTITY_BYTES])
    return ""


def refused_parts(first: int, problems: Mapping[int, str]) -> list[tuple[int, int, str]]:
    """The refused messages of a batch that begins with this number: number, count and reason of each run of them."""
    found: list[tuple[int, int, str]] = []
    for place, reason in sorted(problems.items()):
        if found and found[-1][2] == reason and found[-1][0] + found[-1][1] == first + place:
            found[-1] = (found[-1][0], found[-1][1] + 1, reason)
        else:
            found.append((first + place, 1, reason))
    return found
