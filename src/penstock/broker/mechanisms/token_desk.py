"""The wandering token in one broker: it walks over the brokers of the overlay as control traffic ([Token] section 3).

Brokers that are not neighbours reach each other through those in between, one hop along the system stream's tree at a
time, ahead of data. The members are the reachable brokers, so that each side of a partition has its own group and
constants. While a broker is enabled its shell does pending heavy work, and its bulk catch-ups may request more at a
time; delivery never waits for the token.
"""

from __future__ import annotations

from typing import Final

import msgspec

from penstock.broker.effects import Operate, Record
from penstock.broker.guaranteed import Guaranteed
from penstock.broker.mechanisms.interface import Answer, Tell
from penstock.broker.rooms import Rooms
from penstock.model.decoding import UnreadableError, decoded
from penstock.model.errors import PeerError
from penstock.model.ports import Rng
from penstock.model.values import Attributes
from penstock.protocol.status import TokenStatus
from penstock.selectors.selector import Selector
from penstock.token.member import Enabled, Member, Output, Send
from penstock.token.messages import TokenMessageError
from penstock.token.tokens import Fence

__all__ = ["TokenDesk"]

_LOOK_MS: Final = 1_000
"""How often a broker checks which brokers can be reached."""
_HOPS_MAX: Final = 64
_RETRY_MS_MIN: Final = 50
_LIFT: Final = 10
"""While enabled, a bulk catch-up may request at least this many initial NACK windows at a time."""


class _Letter(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message between two members, as it travels."""

    to: str
    sender: str
    hops: int
    payload: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Letter)


class TokenDesk:
    """One broker as a member of the group of all brokers; does nothing without a plan in the settings."""

    name = "token"
    selector: Selector | None = None

    def __init__(self, rooms: Rooms, guaranteed: Guaranteed, *, life: int, rng: Rng) -> None:
        self._rooms = rooms
        self._settings = rooms.settings
        self._guaranteed = guaranteed
        self._life, self._rng = life, rng
        self._member: Member | None = None
        self._operation: Fence | None = None
        self._look_ms = 0
        self.malformed = 0
        """Malformed messages."""

    # --- as a mechanism

    def on_neighbour(self, neighbour: str, *, up: bool, now_ms: int) -> list[Answer]:
        """A link came up or went down, which changes who can be reached."""
        del neighbour, up
        return self._look(now_ms)

    def on_message(self, neighbour: str, payload: bytes, *, now_ms: int) -> list[Answer]:
        """Takes a letter for this broker, or forwards one for another."""
        try:
            letter = decoded(_decoder.decode, payload)
        except UnreadableError as error:
            raise PeerError(f"{neighbour} sent a malformed token message: {error}") from None
        if not self._rooms.router.is_from_host(neighbour, f"${letter.to}", letter.sender):
            # The sender does not exist or lies on another path: forged, or sent before the path changed.
            return []
        if letter.to != self._settings.name:
            return self._post(letter) if letter.hops < _HOPS_MAX else []
        answers = self._look(now_ms)
        if self._member is None:
            return answers
        try:
            return answers + self._carried_out(
                self._member.on_message(letter.sender, letter.payload, now_ms=now_ms), now_ms
            )
        except TokenMessageError as error:
            # Not the neighbour's fault: it only forwarded the letter.
            self.malformed += 1
            return [*answers, Record("malformed", (("sender", letter.sender), ("reason", str(error))))]

    def on_publication(self, attributes: Attributes, body: bytes, *, now_ms: int) -> list[Answer]:
        """Ignores publications: the token selects none."""
        del attributes, body, now_ms
        return []

    def next_deadline(self) -> int | None:
        """When a hold ends, a timeout expires, or reachability is checked next."""
        if self._settings.token is None:
            return None
        if self._member is None:
            return 0
        due_ms = self._member.next_deadline()
        return self._look_ms if due_ms is None else min(due_ms, self._look_ms)

    def on_deadline(self, *, now_ms: int) -> list[Answer]:
        """Checks reachability, and lets the member do what is due."""
        answers = self._look(now_ms)
        if self._member is None:
            return answers
        return answers + self._carried_out(self._member.on_deadline(now_ms=now_ms), now_ms)

    def status(self) -> TokenStatus | None:
        """Figures for the operator; None without a token."""
        return (
            None if self._member is None else msgspec.structs.replace(self._member.status(), malformed=self.malformed)
        )

    # --- from the broker

    def tune(self, *, now_ms: int) -> list[Answer]:
        """Applies changed settings."""
        plan = self._settings.token
        if plan is None:
            self._member = None
            self._end(now_ms)
            return []
        if self._member is None or plan == self._member.plan:
            return self._look(now_ms)
        return self._carried_out(self._member.set_plan(plan, now_ms=now_ms), now_ms)

    def on_operated(self, fence: str, *, now_ms: int) -> list[Answer]:
        """The shell has finished the heavy work."""
        operation = self._operation
        if self._member is None or operation is None or str(operation) != fence:
            return []
        self._end(now_ms)
        return self._carried_out(self._member.done(operation, now_ms=now_ms), now_ms)

    # --- inside

    def _look(self, now_ms: int) -> list[Answer]:
        """Updates the members to those that can be reached now; the first call starts the member."""
        settings = self._settings
        if settings.token is None:
            return []
        if self._member is None:
            skip_ms = settings.token.constants(1).skip_ms
            self._member = Member(
                settings.name,
                settings.token,
                life=self._life,
                rng=self._rng,
                now_ms=now_ms,
                retry_ms=max(skip_ms // 2, _RETRY_MS_MIN),
            )
        self._look_ms = now_ms + _LOOK_MS
        graph, reached = self._rooms.topology.graph(), {settings.name: None}
        for name in (waiting := [settings.name]):
            fresh = [other for other in graph.get(name, ()) if other not in reached]
            reached |= dict.fromkeys(fresh)
            waiting += fresh
        return self._carried_out(self._member.set_members(reached, now_ms=now_ms), now_ms)

    def _carried_out(self, outputs: list[Output], now_ms: int) -> list[Answer]:
        answers: list[Answer] = []
        for output in outputs:
            if isinstance(output, Send):
                answers += self._post(_Letter(output.to, self._settings.name, 0, output.payload))
            elif isinstance(output, Enabled):
                self._operation = output.fence
                self._guaranteed.lift(_LIFT * self._settings.congestion.nack_window_ms, now_ms=now_ms)
                answers.append(Operate(str(output.fence), output.until_ms))
            else:
                answers.append(Record(output.event, output.fields))
        if self._operation is not None and self._member is not None and not self._member.is_operating:
            self._end(now_ms)
        return answers

    def _end(self, now_ms: int) -> None:
        self._operation = None
        self._guaranteed.lift(0, now_ms=now_ms)

    def _post(self, letter: _Letter) -> list[Answer]:
        """Sends a letter one hop towards its receiver; it is lost if there is no path."""
        hop = self._rooms.router.place_in(f"${letter.to}").parent
        if not hop:
            return []
        passed = _Letter(letter.to, letter.sender, letter.hops + 1, letter.payload)
        return [Tell(hop, _encoder.encode(passed))]
