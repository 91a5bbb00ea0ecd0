"""Decides who may connect, and what each client may publish and see: an access list whose rules are selectors.

A client authenticates with a token or, where certificates are required, with the certificate of its connection. Rules
are tried in order; the first whose client pattern matches decides. A subscriber's selector is narrowed to what it may
see; a message that a publisher may not publish is refused.
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
    """What clients with a matching name may do."""

    clients: str
    """A pattern of client names, as in LIKE: ``%`` matches everybody."""
    publish: Selector | None = EVERYTHING
    """What they may publish; None for nothing."""
    subscribe: Selector | None = EVERYTHING
    """What they may see; None for nothing."""
    trace: bool = True
    """Whether they may ask where messages came from and who received them."""
    durable: str = ""
    """A pattern of durable subscription names that they may use, whoever created them; empty for none."""
    status: bool = False
    """Whether a broker's status shows them the names of other clients and of their durable subscriptions."""

    def fits(self, name: str) -> bool:
        """Whether the rule applies to this client."""
        return LikePattern.parse(self.clients).matches(name)

    def shares(self, durable: str) -> bool:
        """Whether these clients may use a durable subscription that another client created."""
        return bool(self.durable) and LikePattern.parse(self.durable).matches(durable)


class Claimant(NamedTuple):
    """A client that wants to use a durable subscription, or to have it forgotten."""

    client: str = ""
    """Its authenticated name; empty where clients need not authenticate."""
    shares: bool = False
    """Whether its rule lets it use the name, whoever created it."""


NOBODY: Final = Claimant()


_NOTHING_ALLOWED = Rule("%", None, None, trace=False)
_ALL_ALLOWED = (Rule("%"),)


@dataclass(slots=True, frozen=True)
class Access:
    """Tokens and rules. Without tokens or certificates anybody may connect: the shell allows that on loopback only."""

    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Token by client name."""
    rules: tuple[Rule, ...] = _ALL_ALLOWED
    certificates: bool = False
    """Whether everybody must present a certificate: the name in it identifies the client, and nothing else does."""

    @property
    def is_open(self) -> bool:
        """Whether anybody may connect."""
        return not self.tokens and not self.certificates

    @property
    def has_rules(self) -> bool:
        """Whether rules other than the default are set."""
        return self.rules != _ALL_ALLOWED

    def identify(self, name: str, credential: str, certificate: str) -> str | None:
        """Returns the client's name, or None if it could not prove it."""
        if self.is_open:
            return name
        if self.certificates:
            # A certificate without a name identifies nobody, whatever token comes with it.
            return certificate or None
        expected = self.tokens.get(name)
        # Compared in constant time, also for unknown names.
        proven = compare_digest((expected or "").encode(), credential.encode())
        return name if proven and expected else None

    def refusal(self, name: str) -> str:
        """What a client that could not prove its name is told: not whether there is such a name."""
        if self.certificates:
            return "its certificate does not have exactly one name"
        return f"name {name!r}: wrong or missing token"

    def missing_proof(self, name: str, credential: str, certificate: str) -> str:
        """What a client lacks to prove its name, for the operator alone; empty if it can prove it."""
        if self.identify(name, credential, certificate) is not None:
            return ""
        if self.certificates:
            return "no certificate with exactly one name"
        if name not in self.tokens:
            return "unknown name"
        return "wrong token" if credential else "no token"

    def claimant(self, client: str, rule: Rule, durable: str) -> Claimant:
        """Describes a client to the pubends that keep durable names."""
        return NOBODY if self.is_open else Claimant(client, rule.shares(durable))

    def may_have(self, claimant: Claimant, owner: str) -> bool:
        """Whether a client may use a durable name; a name without an owner goes to the first client that asks."""
        return self.is_open or not owner or claimant.client == owner or claimant.shares

    def rule_for(self, client: str) -> Rule:
        """Returns the first rule that matches the client; without one, nothing is allowed."""
        return next((rule for rule in self.rules if rule.fits(client)), _NOTHING_ALLOWED)
