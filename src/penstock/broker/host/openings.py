"""Where subscriptions may begin, asked of the pubends: for stated positions, replays, and durable names.

A host asks each pubend once the path includes the subscription, again until it is answered, and then lets it begin. Who
claims a durable name that somebody holds with a higher number claims it anew with a number above that, at all pubends:
the latest to come wins everywhere. Requests to forget a name are gathered here as well, until all pubends have answered
or it took too long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Final

from penstock.broker.access import NOBODY, Claimant
from penstock.broker.claims import Claims
from penstock.broker.due import Due
from penstock.broker.host.edge import HostSubscription
from penstock.protocol.frames import LATEST, ControlFrame, StreamForget, StreamForgotten, StreamOpen, StreamOpened

__all__ = ["Forgetting", "Opening", "Openings"]

_RETRY_MS: Final = 500
_FORGET_MS: Final = 3_000
_CLAIMS_MAX: Final = 8
"""How often a name is claimed anew before its holder is taken to be there to stay."""
_DENIED_MAX: Final = 10_000
_NOBODY_ASKED: Final = -1
"""In place of a connection: this broker withdraws a claim by itself."""
_NUMBER_MAX: Final = 2**61
"""Nobody honest holds a name with a number above this."""


@dataclass(slots=True)
class Opening:
    """A question that a pubend has not answered."""

    subscription: HostSubscription
    pubend: str
    due_ms: int
    claims: int = 0


@dataclass(slots=True)
class Forgetting:
    """A request of a client to forget a name."""

    connection: int
    number: int
    name: str
    by: Claimant
    end_ms: int
    due_ms: int
    """When those who have not answered are asked again."""
    pending: dict[str, None] = field(default_factory=dict)
    existed: bool = False
    problem: str = ""
    """Why a pubend did not forget it."""
    ownership: int = 0
    """If not 0: only if it is held by this claim."""


class Openings:
    """The questions of one host."""

    def __init__(
        self, host: str, claims: Claims, *, incarnation: int, send: Callable[[str, ControlFrame], None]
    ) -> None:
        self._host, self._claims, self._send = host, claims, send
        # Answers to the questions of an earlier life must not be taken for answers to ours.
        self._last = incarnation << 20
        self._openings: dict[int, Opening] = {}
        """By ticket, in the order in which they are due."""
        self._tickets: dict[int, dict[str, int]] = {}
        """By subscription and pubend."""
        self._denied: dict[int, Opening] = {}
        """Questions for subscriptions that were refused meanwhile, since a name in them is another client's."""
        self._forgettings: dict[int, Forgetting] = {}
        self.due = Due(self.next_deadline)
        self.done: list[Forgetting] = []
        """Requests to forget that have been answered, or waited for long enough."""

    # --- where to begin

    def ask(self, subscription: HostSubscription, pubend: str, *, now_ms: int) -> None:
        """Asks where a subscription may begin on a pubend, unless that was asked already."""
        tickets = self._tickets.setdefault(subscription.key, {})
        if pubend in tickets:
            return
        self._last += 1
        tickets[pubend] = self._last
        self._openings[self._last] = Opening(subscription, pubend, now_ms + _RETRY_MS)
        self.due.by(now_ms + _RETRY_MS)
        self._say(self._last)

    def answer(
        self, frame: StreamOpened, *, is_leaving: Callable[[HostSubscription], bool], now_ms: int
    ) -> Opening | None:
        """A pubend has answered; answers with the opening that is settled by it, if one is.

        For a client that is leaving nothing is claimed anew: the broker where it goes has the name by now. If it stays
        after all, that is asked again.
        """
        opening = self._openings.get(frame.ticket)
        if opening is None or opening.pubend != frame.pubend:
            return None
        subscription = opening.subscription
        if subscription.durable and frame.claimed != subscription.ownership and not frame.problem:
            # To a claim that we have raised since: it is asked anew in its time.
            return None
        if frame.held and is_leaving(subscription):
            return None
        if frame.held and frame.held < _NUMBER_MAX and opening.claims < _CLAIMS_MAX:
            opening.claims += 1
            self._raise(subscription, frame.held, now_ms)
            return None
        self._drop(frame.ticket)
        return opening

    def _raise(self, subscription: HostSubscription, held: int, now_ms: int) -> None:
        """Claims a name with a number above that of its holder, at all pubends: we are later."""
        subscription.ownership = self._claims.next(above=held)
        for pubend in list(subscription.opened):
            self.ask(subscription, pubend, now_ms=now_ms)
        self._ask_again(list(self._tickets.get(subscription.key, {}).values()), now_ms)

    def leave(self, key: int) -> None:
        """A subscription is gone."""
        for ticket in self._tickets.pop(key, {}).values():
            opening = self._openings.pop(ticket)
            if opening.subscription.is_denied:
                self._denied[ticket] = opening
                if len(self._denied) > _DENIED_MAX:
                    del self._denied[next(iter(self._denied))]

    # --- names that are another client's at some pubends

    def withdraw_if_denied(self, subscription: HostSubscription, frame: StreamOpened, *, now_ms: int) -> None:
        """Gives names back that were free, if a pubend says that they belong to another client.

        Else a client that is only ever refused would have the name where its owner has not come yet.
        """
        if frame.is_new:
            subscription.fresh[frame.pubend] = None
        subscription.is_denied = subscription.is_denied or frame.is_denied
        if subscription.is_denied:
            fresh, subscription.fresh = subscription.fresh, {}
            for pubend in fresh:
                self._withdraw(subscription, pubend, now_ms)

    def on_late(self, frame: StreamOpened, *, now_ms: int) -> None:
        """An answer that nobody waits for any more: what it grants to somebody who was denied elsewhere goes back."""
        opening = self._denied.pop(frame.ticket, None)
        if opening is not None and opening.pubend == frame.pubend:
            self.withdraw_if_denied(opening.subscription, frame, now_ms=now_ms)

    def _withdraw(self, subscription: HostSubscription, pubend: str, now_ms: int) -> None:
        name, by = subscription.durable, subscription.claimant
        self._forget(
            Forgetting(_NOBODY_ASKED, 0, name, by, 0, 0, {pubend: None}, ownership=subscription.ownership), now_ms
        )

    # --- forgetting

    def forgetting(self, connection: int, client: str) -> int:
        """How many requests to forget names are under way, of a connection and of the client that proved this name."""
        return sum(
            each.connection == connection or (client != "" and each.by.client == client)
            for each in self._forgettings.values()
        )

    def forget(
        self, connection: int, number: int, name: str, pubends: list[str], by: Claimant = NOBODY, *, now_ms: int
    ) -> None:
        """Asks these pubends to forget a name."""
        self._forget(Forgetting(connection, number, name, by, 0, 0, dict.fromkeys(pubends)), now_ms)

    def _forget(self, request: Forgetting, now_ms: int) -> None:
        self._last += 1
        request.end_ms, request.due_ms = now_ms + _FORGET_MS, now_ms + _RETRY_MS
        self._forgettings[self._last] = request
        self.due.by(request.due_ms)
        self._say_forget(self._last)
        self._settle(self._last)

    def on_forgotten(self, frame: StreamForgotten) -> None:
        """A pubend has forgotten a name, or never knew it."""
        request = self._forgettings.get(frame.ticket)
        if request is not None:
            request.pending.pop(frame.pubend, None)
            request.existed = request.existed or frame.existed
            request.problem = request.problem or frame.problem
            self._settle(frame.ticket)

    def _settle(self, ticket: int) -> None:
        request = self._forgettings.get(ticket)
        # Pubends of this broker answer at once, so it may be settled already.
        if request is not None and not request.pending:
            self.done.append(self._forgettings.pop(ticket))

    # --- time

    def next_deadline(self) -> int | None:
        """When to ask again, or to give up."""
        if not self._openings and not self._forgettings:
            return None
        wishes = [each.due_ms for each in islice(self._openings.values(), 1)]
        wishes += [min(each.due_ms, each.end_ms) for each in self._forgettings.values()]
        return min(wishes, default=None)

    def on_deadline(self, *, now_ms: int) -> None:
        """Asks again what was not answered."""
        due = takewhile(lambda each: each[1].due_ms <= now_ms, self._openings.items())
        self._ask_again([ticket for ticket, _ in due], now_ms)
        for ticket, request in list(self._forgettings.items()):
            if request.end_ms <= now_ms:
                self.done.append(self._forgettings.pop(ticket))
            elif request.due_ms <= now_ms:
                request.due_ms = now_ms + _RETRY_MS
                self._say_forget(ticket)

    def _ask_again(self, tickets: list[int], now_ms: int) -> None:
        for ticket in tickets:
            # Pubends of this broker answer at once, so asking one may settle others.
            if ticket in self._openings:
                self._postpone(ticket, now_ms)
                self._say(ticket)

    def _say_forget(self, ticket: int) -> None:
        request = self._forgettings[ticket]
        for pubend in list(request.pending):
            self._send(pubend, StreamForget(pubend, self._host, ticket, request.name, *request.by, request.ownership))

    def _say(self, ticket: int) -> None:
        opening = self._openings[ticket]
        subscription, pubend = opening.subscription, opening.pubend
        self._send(
            pubend,
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
            ),
        )

    def _postpone(self, ticket: int, now_ms: int) -> None:
        # To the end, where those are that are due last.
        opening = self._openings.pop(ticket)
        opening.due_ms = now_ms + _RETRY_MS
        self._openings[ticket] = opening

    def _drop(self, ticket: int) -> None:
        opening = self._openings.pop(ticket)
        tickets = self._tickets[opening.subscription.key]
        del tickets[opening.pubend]
        if not tickets:
            del self._tickets[opening.subscription.key]
