"""What the disks of a world say about work queues: which messages there are, with which keys, and all dead letters.

The journals of disks only grow, so each is read once, piece by piece.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from penstock.model.body import decode_attributes, decode_message
from penstock.model.expiry import EXPIRES, expires_at_ms
from penstock.model.values import AttributeValue
from penstock.selectors.evaluate import compile_condition
from penstock.selectors.text import parse
from penstock.sim.node import SimBroker
from penstock.sim.worker import GroupPlan

__all__ = ["Letter", "SharingIndex"]

_Task = tuple[str, str, int]
"""A group, a pubend and a tick."""


class Letter(NamedTuple):
    """A dead letter."""

    body: bytes
    attempts: int


class SharingIndex:
    """All messages that ever became durable, as the groups see them."""

    def __init__(self, plans: Mapping[str, GroupPlan]) -> None:
        self._plans = plans
        self._tests = {name: compile_condition(parse(plan.selector)) for name, plan in plans.items()}
        self._read: Counter[str] = Counter()
        """By broker, how much of its journal is in the index."""
        self.bodies: Final[dict[tuple[str, int], bytes]] = {}
        """By pubend and tick."""
        self.ends_ms: Final[dict[tuple[str, int], int]] = {}
        """When messages with a lifetime expire."""
        self.keyed: Final[dict[tuple[str, str, AttributeValue], list[tuple[int, bytes]]]] = {}
        """By group, pubend and key: the messages that the group selects, in order."""
        self.keys: Final[dict[_Task, AttributeValue]] = {}
        self.letters: Final[dict[_Task, list[Letter]]] = {}
        """The dead letters of each message."""

    def selects(self, group: str, body: bytes) -> bool:
        """Whether a group wants a message."""
        return self._tests[group](decode_attributes(body)) is True

    def read(self, brokers: Iterable[SimBroker]) -> None:
        """Read what these brokers' disks have got since the last time."""
        for broker in brokers:
            journal = broker.disk.journal or []
            dead = broker.settings.dead_letters
            for pubend, tick, body in journal[self._read[broker.name] :]:
                self._add(pubend, tick, body, is_letter=pubend == dead)
            self._read[broker.name] = len(journal)

    def _add(self, pubend: str, tick: int, body: bytes, *, is_letter: bool) -> None:
        self.bodies[pubend, tick] = body
        attributes = decode_attributes(body)
        if (end_ms := expires_at_ms(body, attributes)) is not None:
            self.ends_ms[pubend, tick] = end_ms
        if is_letter and {"dead_group", "dead_pubend", "dead_tick", "dead_attempts"} <= attributes.keys():
            task = str(attributes["dead_group"]), str(attributes["dead_pubend"]), _number(attributes["dead_tick"])
            self.letters.setdefault(task, []).append(Letter(body, _number(attributes["dead_attempts"])))
        for group, plan in self._plans.items():
            key = attributes.get(plan.shared.shared_by) if plan.shared.shared_by else None
            if key is not None and self._tests[group](attributes) is True:
                self.keyed.setdefault((group, pubend, key), []).append((tick, body))
                self.keys[group, pubend, tick] = key

    def fault_of(self, task: _Task, letter: Letter) -> str:
        """What a dead letter has that its message has not, or lacks; empty if it is as it should be."""
        original = self.bodies.get(task[1:])
        if original is None:
            return "stands for no message"
        letter_id, told = decode_message(letter.body)
        message_id, message = decode_message(original)
        if letter_id != message_id:
            return "has another identifier than its message"
        if (told.payload, told.content_type) != (message.payload, message.content_type):
            return "has not the payload of its message"
        attributes = {name: value for name, value in told.attributes.items() if not name.startswith("dead_")}
        if attributes != {name: value for name, value in message.attributes.items() if name != EXPIRES}:
            return "has not the attributes of its message"
        if not str(told.attributes["dead_reason"]).startswith(f"attempt {letter.attempts}"):
            return f"was given up after attempt {letter.attempts}, and says: {told.attributes['dead_reason']}"
        return ""


def _number(value: AttributeValue) -> int:
    return value if isinstance(value, int) else 0
