"""Runs the mechanisms of one broker: passes stimuli to them, and carries out their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import to_builtins

from penstock.broker.effects import Operate, Record
from penstock.broker.guaranteed import Guaranteed
from penstock.broker.host.edge import HostSubscription
from penstock.broker.mechanisms.interface import Answer, Mechanism, PublishSystem, Select, Tell
from penstock.broker.narrowing import is_reserved
from penstock.broker.neighbours.filters import HostChange
from penstock.broker.peers import Peer
from penstock.broker.rooms import Rooms
from penstock.model.body import decode_attributes, encode_body
from penstock.model.errors import PenstockError
from penstock.model.message_id import MessageIdSource
from penstock.protocol.frames import ControlFrame, MechanismMessage
from penstock.selectors.selector import Selector

__all__ = ["Mechanisms"]


class Mechanisms:
    """Passes stimuli to mechanisms, and carries out their answers."""

    def __init__(
        self,
        rooms: Rooms,
        mechanisms: Sequence[Mechanism],
        guaranteed: Guaranteed,
        *,
        say_to: Callable[[str | None, ControlFrame], None],
        flood: Callable[[HostChange | None], None] = lambda _: None,
    ) -> None:
        self._rooms = rooms
        self._guaranteed = guaranteed
        self._say_to = say_to
        self._flood = flood
        self._selected: dict[str, tuple[int, int, Selector]] = {}
        """By mechanism: key, connection and selector of its subscription."""
        self._by_name: dict[str, Mechanism] = {}
        self._system_ids = MessageIdSource(publisher=0, broker=rooms.settings.number)
        for mechanism in mechanisms:
            self.add(mechanism)

    def add(self, mechanism: Mechanism) -> HostChange | None:
        """Adds a mechanism, unless it is there; returns the change of the filter to flood, if any."""
        if mechanism.name in self._by_name:
            return None
        # Mechanisms get connection numbers from -1 downwards, which no shell ever sees.
        connection = -1 - len(self._by_name)
        self._by_name[mechanism.name] = mechanism
        if mechanism.selector is None:
            return None
        key = self._rooms.subscribers.add(connection, 0, mechanism.selector)
        change = self._rooms.filters.want(mechanism.selector)
        self._selected[mechanism.name] = (key, connection, mechanism.selector)
        if not all(map(is_reserved, mechanism.selector.conjunctions)):
            self._guaranteed.subscribe(HostSubscription(key, connection, 0, self._rooms.filters.version), now_ms=0)
        return change

    def on_neighbour(self, name: str, *, up: bool, now_ms: int) -> None:
        """A link came up or went down."""
        for mechanism in self._by_name.values():
            self._carry_out(mechanism, mechanism.on_neighbour(name, up=up, now_ms=now_ms), now_ms)

    def on_message(self, peer: Peer, frame: MechanismMessage, now_ms: int) -> None:
        """Passes a neighbour's control message to the mechanism that it names."""
        mechanism = self._by_name.get(frame.mechanism)
        # A neighbour may run mechanisms that we do not.
        if mechanism is not None:
            self._carry_out(mechanism, mechanism.on_message(peer.name, frame.payload, now_ms=now_ms), now_ms)

    def hear(self, *, now_ms: int) -> None:
        """Passes received publications to the mechanisms that selected them."""
        mechanisms = list(self._by_name.values())
        heard = self._rooms.router.heard
        while heard:
            connection, body = heard.popleft()
            mechanism = mechanisms[-1 - connection]
            try:
                answers = mechanism.on_publication(decode_attributes(body), body, now_ms=now_ms)
            except PenstockError as error:
                # Made by any broker or client; the neighbour only forwarded it.
                self._rooms.connections.record("malformed-publication", mechanism=mechanism.name, reason=str(error))
                continue
            self._carry_out(mechanism, answers, now_ms)

    def next_deadline(self) -> int | None:
        """When the first of the mechanisms wants to be woken."""
        first_ms: int | None = None
        for each in self._by_name.values():
            due_ms = each.next_deadline()
            if due_ms is not None and (first_ms is None or due_ms < first_ms):
                first_ms = due_ms
        return first_ms

    def on_deadline(self, *, now_ms: int) -> None:
        """Wakes the mechanisms that are due; a bug in one is raised when all others have had their turn."""
        bugs: list[Exception] = []
        for mechanism in self._by_name.values():
            due_ms = mechanism.next_deadline()
            if due_ms is None or now_ms < due_ms:
                continue
            try:
                self._carry_out(mechanism, mechanism.on_deadline(now_ms=now_ms), now_ms)
            except Exception as error:  # noqa: BLE001 - raised below
                bugs.append(error)
        if bugs:
            raise bugs[0]

    def status(self) -> dict[str, dict[str, Any]]:
        """The figures of each mechanism that has any, as they travel."""
        return {name: figures for name, each in self._by_name.items() if (figures := to_builtins(each.status()))}

    def carry_out(self, name: str, answers: list[Answer], *, now_ms: int) -> None:
        """Carries out a mechanism's answers to a call that the broker made directly."""
        self._carry_out(self._by_name[name], answers, now_ms)

    def _carry_out(self, mechanism: Mechanism, answers: list[Answer], now_ms: int) -> None:
        rooms = self._rooms
        for answer in answers:
            if isinstance(answer, Tell):
                self._say_to(answer.neighbour, MechanismMessage(mechanism.name, answer.payload))
            elif isinstance(answer, PublishSystem):
                body = encode_body(self._system_ids.next(now_ms), answer.message)
                rooms.router.publish(f"${rooms.settings.name}", [body], [decode_attributes(body)], now_ms=now_ms)
            elif isinstance(answer, Operate):
                rooms.connections.add_effect(answer)
            elif isinstance(answer, Select):
                self._select(mechanism, answer.selector)
            else:
                assert isinstance(answer, Record)
                rooms.connections.record(answer.event, **dict(answer.fields))

    def _select(self, mechanism: Mechanism, selector: Selector) -> None:
        """Replaces the selector of a mechanism; the new one is in force before the old one goes."""
        assert all(map(is_reserved, selector.conjunctions)), f"{mechanism.name} selects outside of the reserved space"
        rooms = self._rooms
        key, connection, former = self._selected[mechanism.name]
        self._selected[mechanism.name] = (rooms.subscribers.add(connection, 0, selector), connection, selector)
        self._flood(rooms.filters.want(selector))
        rooms.subscribers.remove(key)
        self._flood(rooms.filters.unwant([former]))
