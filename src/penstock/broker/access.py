"""Who may connect, and what each may publish and see: an access list whose rules are selectors.

A client proves who it is by a token, or where certificates are asked for, by the one of its connection. Rules are
looked at in order; the first whose client pattern fits decides. A subscriber's selector is narrowed by what it may see;
a message that a publisher may not publish is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Final, NamedTuple

from penstock.selectors.like import LikePattern
from penstock.selectors.selector import EVERYTHING, Selector

__all__ = ["NOBODY", "Access", "Claimant", "Rule"]


@dataclass(slots=True, frozen=True)
class Rule:
    """What the clients whose name fits may do."""

    clients: str
    """A pattern as in LIKE: ``%`` fits everybody."""
    publish: Selector | None = EVERYTHING
    """What they may publish; None for nothing."""
    subscribe: Selector | None = EVERYTHING
    """What they may see; None for nothing."""
    trace: bool = True
    """Whether they may ask where messages came from and who received them."""
    durable: str = ""
    """A pattern of names of durable subscriptions that they share, whoever made them; empty for none."""
    status: bool = False
    """Whether a broker's status shows them the names of others: clients, and their durable subscriptions."""

    def fits(self, name: str) -> bool:
        """Whether the rule speaks of this client."""
        return LikePattern.parse(self.clients).matches(name)

    def shares(self, durable: str) -> bool:
        """Whether these clients may use a durable subscription that another one made."""
        return bool(self.durable) and LikePattern.parse(self.durable).matches(durable)


class Claimant(NamedTuple):
    """Who wants to have a durable subscription, or to have it forgotten."""

    client: str = ""
    """Its proven name; empty where nobody has to prove one."""
    shares: bool = False
    """Whether its rule lets it have the name, whoever made it."""


NOBODY: Final = Claimant()


_NOTHING_ALLOWED = Rule("%", None, None, trace=False)
_ALL_ALLOWED = (Rule("%"),)


@dataclass(slots=True, frozen=True)
class Access:
    """Tokens and rules. Without tokens everybody may connect: the shell allows that on loopback only."""

    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Token by client name."""
    rules: tuple[Rule, ...] = _ALL_ALLOWED
    certificates: bool = False
    """Whether everybody must show a certificate: its name says who it is, and nothing else does."""

    @property
    def is_open(self) -> bool:
        """Whether anybody may connect."""
        return not self.tokens and not self.certificates

    @property
    def has_rules(self) -> bool:
        """Whether clients may do different things."""
        return self.rules != _ALL_ALLOWED

    def identify(self, name: str, credential: str, certificate: str) -> str | None:
        """Who the client is, or none if it could not prove it."""
        if self.is_open:
            return name
        if self.certificates:
            # Everybody shows a certificate then: one without a name in it is nobody's, whatever else it knows.
            return certificate or None
        expected = self.tokens.get(name)
        # Compared in constant time, also for names that do not exist.
        proven = compare_digest((expected or "").encode(), credential.encode())
        return name if proven and expected else None

    def claimant(self, client: str, rule: Rule, durable: str) -> Claimant:
        """Who a client is to those that keep durable names."""
        return NOBODY if self.is_open else Claimant(client, rule.shares(durable))

    def may_have(self, claimant: Claimant, owner: str) -> bool:
        """Whether a durable name is a client's to use; one that nobody owns is the first's who comes."""
        return self.is_open or not owner or claimant.client == owner or claimant.shares

    def rule_for(self, client: str) -> Rule:
        """What the client may do: the first rule that fits, or nothing."""
        return next((rule for rule in self.rules if rule.fits(client)), _NOTHING_ALLOWED)
