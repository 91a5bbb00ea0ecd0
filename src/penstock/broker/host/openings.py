"""Asks pubends where subscriptions may begin: for stated positions, replays, and durable names.

A host asks each pubend once the path includes the subscription, repeats the question until it is answered, and then
lets the subscription begin. A claim to a durable name that is held with a higher number is repeated with a number above
that, at all pubends: the latest claim wins everywhere. Requests to forget a name are gathered here as well, until all
pubends have answered or the request times out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Final, Protocol

from penstock.broker.access import NOBODY, Claimant
from penstock.broker.claims import Claims
from penstock.broker.due import Due
from penstock.broker.host.edge import HostSubscription
from penstock.broker.host.wishes import Settled, Wish
from penstock.protocol.frames import LATEST, StreamForget, StreamForgotten, StreamOpen, StreamOpened
from penstock.protocol.stream_frames import SELECTOR_SHOWN_CHARS

__all__ = ["Opening", "Openings", "Send"]

_RETRY_MS: Final = 500
_FORGET_MS: Final = 3_000
_CLAIMS_MAX: Final = 8
"""How often a claim is raised before the holder of the name counts as permanent."""
_DENIED_MAX: Final = 10_000
_NOBODY_ASKED: Final = -1
"""Used in place of a connection when this broker withdraws a claim by itself."""
_NUMBER_MAX: Final = 2**61
"""No honest claim has a number above this."""


@dataclass(slots=True)
class Opening:
    """A question that a pubend has not answered yet."""

    subscription: HostSubscription
    pubend: str
    due_ms: int
    claims: int = 0


@dataclass(slots=True)
class _Forgetting:
    """A client's request to forget a name."""

    connection: int
    number: int
    name: str
    by: Claimant
    end_ms: int
    due_ms: int
    """When pubends that have not answered are asked again."""
    pending: dict[str, None] = field(default_factory=dict)
    existed: bool = False
    problem: str = ""
    """Why a pubend did not forget the name."""
    ownership: int = 0
    """If not 0: forget the name only if this claim holds it."""


class Send(Protocol):
    """How questions get to their pubends."""

    def __call__(self, frame: StreamOpen | StreamForget, *, now_ms: int) -> list[Wish]:
        """Sends a question; if the pubend answers at once, returns what the answer requires."""


class Openings:
    """The questions of one host."""

    def __init__(
        self,
        host: str,
        claims: Claims,
        *,
        incarnation: int,
        send: Send,
    ) -> None:
        """Pubends of this broker answer at once, so sending a question may settle it and cause wishes."""
        self._host = host
        self._claims = claims
        self._send = send
        # Answers to questions of an earlier life must not match ours.
        self._last = incarnation << 20
        self._openings: dict[int, Opening] = {}
        """By ticket, in the order in which they are due."""
        self._tickets: dict[int, dict[str, int]] = {}
        """Tickets of open questions, by subscription and pubend."""
        self._denied: dict[int, Opening] = {}
        """Open questions of subscriptions that were refused because the name belongs to another client."""
        self._forgettings: dict[int, _Forgetting] = {}
        self.due = Due(self.next_deadline)

    # --- where to begin

    def ask(self, subscription: HostSubscription, pubend: str, *, now_ms: int) -> list[Wish]:
        """Asks where a subscription may begin on a pubend, unless that question is open."""
        tickets = self._tickets.setdefault(subscription.key, {})
        if pubend in tickets:
            return []
        self._last += 1
        tickets[pubend] = self._last
        self._openings[self._last] = Opening(subscription, pubend, now_ms + _RETRY_MS)
        self.due.by(now_ms + _RETRY_MS)
        return self._say(self._last, now_ms)

    def answer(
        self, frame: StreamOpened, *, is_leaving: Callable[[HostSubscription], bool], now_ms: int
    ) -> tuple[Opening | None, list[Wish]]:
        """Takes a pubend's answer; returns the opening that it settles, if any, and the wishes of a raised claim.

        Claims of a client that is leaving are not raised: the broker it moves to has the name by now. If the client
        stays after all, the question is repeated.
        """
        opening = self._openings.get(frame.ticket)
        if opening is None or opening.pubend != frame.pubend:
            return None, []
        subscription = opening.subscription
        if subscription.durable and frame.claimed != subscription.ownership and not frame.problem:
            # It answers a claim that we have raised since, for which the question is repeated when due.
            return None, []
        if frame.held and is_leaving(subscription):
            return None, []
        if frame.held and frame.held < _NUMBER_MAX and opening.claims < _CLAIMS_MAX:
            opening.claims += 1
            return None, self._raise(subscription, frame.held, now_ms)
        self._drop(frame.ticket)
        return opening, []

    def _raise(self, subscription: HostSubscription, held: int, now_ms: int) -> list[Wish]:
        """Claims a name with a number above its holder's, at all pubends: the later claim wins."""
        subscription.ownership = self._claims.next(above=held)
        wishes: list[Wish] = []
        for pubend in list(subscription.opened):
            wishes += self.ask(subscription, pubend, now_ms=now_ms)
        wishes += self._ask_again(list(self._tickets.get(subscription.key, {}).values()), now_ms)
        return wishes

    def leave(self, key: int) -> None:
        """Drops the questions of a subscription that is gone."""
        for ticket in self._tickets.pop(key, {}).values():
            opening = self._openings.pop(ticket)
            if opening.subscription.is_denied:
                self._denied[ticket] = opening
                if len(self._denied) > _DENIED_MAX:
                    del self._denied[next(iter(self._denied))]

    # --- names that belong to another client at some pubends

    def withdraw_if_denied(self, subscription: HostSubscription, frame: StreamOpened, *, now_ms: int) -> list[Wish]:
        """Withdraws claims to new names if some pubend says that the name belongs to another client.

        Otherwise a refused client would own the name at pubends that its owner has not reached yet.
        """
        if frame.is_new:
            subscription.fresh[frame.pubend] = None
        subscription.is_denied = subscription.is_denied or frame.is_denied
        wishes: list[Wish] = []
        if subscription.is_denied:
            fresh, subscription.fresh = subscription.fresh, {}
            for pubend in fresh:
                wishes += self._withdraw(subscription, pubend, now_ms)
        return wishes

    def on_late(self, frame: StreamOpened, *, now_ms: int) -> list[Wish]:
        """Takes an answer that nobody waits for any more: withdraws what it grants if the name was denied elsewhere."""
        opening = self._denied.pop(frame.ticket, None)
        if opening is None or opening.pubend != frame.pubend:
            return []
        return self.withdraw_if_denied(opening.subscription, frame, now_ms=now_ms)

    def _withdraw(self, subscription: HostSubscription, pubend: str, now_ms: int) -> list[Wish]:
        name, by = subscription.durable, subscription.claimant
        request = _Forgetting(_NOBODY_ASKED, 0, name, by, 0, 0, {pubend: None}, ownership=subscription.ownership)
        return self._forget(request, now_ms)

    # --- forgetting

    def forgetting(self, connection: int, client: str) -> int:
        """How many requests to forget names are pending, from a connection or from the client with this proven name."""
        return sum(
            each.connection == connection or (client != "" and each.by.client == client)
            for each in self._forgettings.values()
        )

    def forget(
        self, connection: int, number: int, name: str, pubends: list[str], by: Claimant = NOBODY, *, now_ms: int
    ) -> list[Wish]:
        """Asks these pubends to forget a name."""
        return self._forget(_Forgetting(connection, number, name, by, 0, 0, dict.fromkeys(pubends)), now_ms)

    def _forget(self, request: _Forgetting, now_ms: int) -> list[Wish]:
        self._last += 1
        request.end_ms, request.due_ms = now_ms + _FORGET_MS, now_ms + _RETRY_MS
        self._forgettings[self._last] = request
        self.due.by(request.due_ms)
        ticket = self._last
        wishes = self._say_forget(ticket, now_ms)
        # Pubends of this broker answer at once, so it may be settled already; or there may be no pubends.
        if ticket in self._forgettings and not request.pending:
            wishes += self._settle(ticket)
        return wishes

    def on_forgotten(self, frame: StreamForgotten) -> list[Wish]:
        """A pubend has forgotten a name, or never knew it."""
        request = self._forgettings.get(frame.ticket)
        if request is None:
            return []
        request.pending.pop(frame.pubend, None)
        request.existed = request.existed or frame.existed
        request.problem = request.problem or frame.problem
        return [] if request.pending else self._settle(frame.ticket)

    def _settle(self, ticket: int) -> list[Wish]:
        """Ends a request to forget; its client is told, if it came from one."""
        request = self._forgettings.pop(ticket)
        if request.connection == _NOBODY_ASKED:
            return []
        pending = tuple(request.pending)
        return [Settled(request.connection, request.number, request.name, request.existed, request.problem, pending)]

    # --- time

    def next_deadline(self) -> int | None:
        """When to repeat a question, or to give up."""
        if not self._openings and not self._forgettings:
            return None
        wishes = [each.due_ms for each in islice(self._openings.values(), 1)]
        wishes += [min(each.due_ms, each.end_ms) for each in self._forgettings.values()]
        return min(wishes, default=None)

    def on_deadline(self, *, now_ms: int) -> list[Wish]:
        """Repeats unanswered questions, and gives up on those that timed out."""
        due = takewhile(lambda each: each[1].due_ms <= now_ms, self._openings.items())
        wishes = self._ask_again([ticket for ticket, _ in due], now_ms)
        for ticket, request in list(self._forgettings.items()):
            if request.end_ms <= now_ms:
                wishes += self._settle(ticket)
            elif request.due_ms <= now_ms:
                request.due_ms = now_ms + _RETRY_MS
                wishes += self._say_forget(ticket, now_ms)
        return wishes

    def _ask_again(self, tickets: list[int], now_ms: int) -> list[Wish]:
        wishes: list[Wish] = []
        for ticket in tickets:
            # Pubends of this broker answer at once, so asking one may settle others.
            if ticket in self._openings:
                self._postpone(ticket, now_ms)
                wishes += self._say(ticket, now_ms)
        return wishes

    def _say_forget(self, ticket: int, now_ms: int) -> list[Wish]:
        request = self._forgettings[ticket]
        wishes: list[Wish] = []
        for pubend in list(request.pending):
            forget = StreamForget(pubend, self._host, ticket, request.name, *request.by, request.ownership)
            wishes += self._send(forget, now_ms=now_ms)
        return wishes

    def _say(self, ticket: int, now_ms: int) -> list[Wish]:
        opening = self._openings[ticket]
        subscription, pubend = opening.subscription, opening.pubend
        return self._send(
            StreamOpen(
                pubend,
                self._host,
                ticket,
                min(subscription.positions.get(pubend, subscription.otherwise), LATEST),
                subscription.missing,
                subscription.durable,
                subscription.ownership,
                subscription.resumes and pubend in subscription.positions,
                *subscription.claimant,
                subscription.selector[:SELECTOR_SHOWN_CHARS] if subscription.durable else "",
            ),
            now_ms=now_ms,
        )

    def _postpone(self, ticket: int, now_ms: int) -> None:
        # To the end, as the order is that of the deadlines.
        opening = self._openings.pop(ticket)
        opening.due_ms = now_ms + _RETRY_MS
        self._openings[ticket] = opening

    def _drop(self, ticket: int) -> None:
        opening = self._openings.pop(ticket)
        tickets = self._tickets[opening.subscription.key]
        del tickets[opening.pubend]
        if not tickets:
            del self._tickets[opening.subscription.key]
