"""Passes tokens by offer, accept and commit: a token may get lost but is never duplicated ([Token] section 3).

The paper names a three-way handshake without describing it. Here the holder keeps its token until an acceptance comes,
and gives it up to that one acceptance at the moment it sends the commit. An acceptance has a number that its sender
never reuses, in this life or another, and forgets once the commit has come: a repeated message then finds nothing to
commit to. So neither end has to remember past handovers; only its life has to be new after a crash. Repeating the
accept also recovers a lost accept or commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from penstock.token.messages import Accept, Commit, Offer, TokenMessage
from penstock.token.tokens import Token

__all__ = ["Handed", "Handshake"]

Handed: TypeAlias = tuple[str, TokenMessage]
"""A recipient and the message for it."""

_PENDING_MAX: Final = 16
"""Most acceptances that may wait for their commit; further offers are not answered."""
_COMMITS_MAX: Final = 16
"""Commits kept for repeating; the oldest is dropped first."""
_TRIES_MAX: Final = 3
"""How often an offer is sent before giving up on its receiver."""
_ACCEPTS_MAX: Final = 12
"""How often an acceptance is sent before it is given up, and the token with it if it was committed."""


@dataclass(slots=True)
class _Offered:
    to: str
    offer: Offer
    tries: int
    due_ms: int


@dataclass(slots=True)
class _Accepted:
    accept: Accept
    token: Token
    tries: int
    due_ms: int


class Handshake:
    """Both ends of all handovers at one component."""

    def __init__(self, life: int, *, retry_ms: int) -> None:
        self.life, self.retry_ms = life, retry_ms
        """The life of this component, greater than all earlier ones, and how long it waits for an answer."""
        self._number = 0
        self._offered: dict[int, _Offered] = {}
        self._accepted: dict[tuple[str, int, int], _Accepted] = {}
        self._committed: dict[Commit, str] = {}

    @property
    def offered(self) -> list[Token]:
        """Tokens that are still here, but on offer."""
        return [each.offer.token for each in self._offered.values()]

    @property
    def accepted(self) -> int:
        """Number of tokens accepted but not yet committed."""
        return len(self._accepted)

    def offer(self, token: Token, to: str, *, now_ms: int) -> Handed:
        """Offers a token that this component holds."""
        self._number += 1
        offer = Offer(self.life, self._number, token.timestamp_ms, token.id, token.count, now_ms)
        self._offered[self._number] = _Offered(to, offer, 1, now_ms + self.retry_ms)
        return to, offer

    def on_offer(self, sender: str, offer: Offer, *, now_ms: int) -> Handed | None:
        """The answer to an offer; None if too many acceptances are pending already."""
        key = sender, offer.life, offer.number
        pending = self._accepted.get(key)
        if pending is None:
            if len(self._accepted) >= _PENDING_MAX:
                return None
            self._number += 1
            accept = Accept(offer.life, offer.number, self.life, self._number)
            pending = self._accepted[key] = _Accepted(accept, offer.token, 1, now_ms + self.retry_ms)
        return sender, pending.accept

    def on_accept(self, sender: str, accept: Accept) -> tuple[Handed, Token | None] | None:
        """The commit that answers an acceptance, and the token that leaves with it; no token if it had left before."""
        commit = Commit(accept.offer_life, accept.offer, accept.life, accept.number)
        if self._committed.get(commit) == sender:
            return (sender, commit), None
        offered = self._offered.get(accept.offer)
        if accept.offer_life != self.life or offered is None or offered.to != sender:
            return None
        del self._offered[accept.offer]
        if len(self._committed) >= _COMMITS_MAX:
            del self._committed[next(iter(self._committed))]
        self._committed[commit] = sender
        return (sender, commit), offered.offer.token

    def on_commit(self, sender: str, commit: Commit) -> Token | None:
        """The token that a commit hands over; None if the commit is stale."""
        key = sender, commit.offer_life, commit.offer
        pending = self._accepted.get(key)
        if pending is None or (commit.accept_life, commit.accept) != (self.life, pending.accept.number):
            return None
        del self._accepted[key]
        return pending.token

    def next_deadline(self) -> int | None:
        """When a message has to be repeated or given up."""
        if not self._offered and not self._accepted:
            return None
        offered = [each.due_ms for each in self._offered.values()]
        return min([*offered, *(each.due_ms for each in self._accepted.values())])

    def on_deadline(self, *, now_ms: int) -> tuple[list[Handed], list[tuple[str, Token]]]:
        """The messages to repeat, and the tokens that are ours again, each with the peer that did not answer."""
        said: list[Handed] = []
        kept: list[tuple[str, Token]] = []
        for number, offered in list(self._offered.items()):
            if now_ms < offered.due_ms:
                continue
            if offered.tries >= _TRIES_MAX:
                kept.append(self.withdraw(number))
                continue
            offered.tries, offered.due_ms = offered.tries + 1, now_ms + self.retry_ms
            said.append((offered.to, _renewed(offered.offer, now_ms)))
        for key, accepted in list(self._accepted.items()):
            if now_ms < accepted.due_ms:
                continue
            if accepted.tries >= _ACCEPTS_MAX:
                self.forget(key)
                continue
            accepted.tries, accepted.due_ms = accepted.tries + 1, now_ms + self.retry_ms
            said.append((key[0], accepted.accept))
        return said, kept

    def withdraw(self, number: int) -> tuple[str, Token]:
        """Withdraws the offer of this number; returns the peer and the token, which is ours again."""
        offered = self._offered.pop(number)
        return offered.to, offered.offer.token

    def forget(self, key: tuple[str, int, int]) -> None:
        """Gives up an acceptance; if its token was committed, it is lost."""
        del self._accepted[key]


def _renewed(offer: Offer, now_ms: int) -> Offer:
    return Offer(offer.life, offer.number, offer.timestamp_ms, offer.id, offer.count, now_ms)
