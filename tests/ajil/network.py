"""A network of Ajil nodes that exchange encoded messages, with loss, repetition, deaths and newcomers."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from penstock.ajil.amounts import Unit
from penstock.ajil.aup import UNLIMITED, Aup
from penstock.ajil.messages import Report, decode, encode
from penstock.ajil.node import AjilNode, Channel
from penstock.ajil.tally import Tally

PACKET = 100


class Member:
    """A node and its shell."""

    def __init__(self, name: str, groups: tuple[str, ...], aup: Aup, rng: Random) -> None:
        self.node = AjilNode(name, aup, rng=rng)
        self.tally = Tally(self.node)
        self.places = {group: self.node.open_channel(Channel(name, group)) for group in groups}
        for group in groups:
            self.tally.join(group)

    def allowed(self, wanted: Mapping[str, float]) -> dict[str, float]:
        """What it sends of what it wants, in bytes."""
        node = self.node
        sent = {group: min(size, node.quota(self.places[group], Unit.BYTES)) for group, size in wanted.items()}
        total = sum(sent.values())
        share = min(1.0, float(node.budgets[Unit.BYTES]) / total) if total else 1.0
        return {group: size * share for group, size in sent.items()}


class Network:
    """Everybody is a member of every group that it was given."""

    def __init__(self, aup: Aup, groups: Mapping[str, tuple[str, ...]], *, seed: int = 1, loss: float = 0.0) -> None:
        self.rng, self.loss, self.repeat = Random(seed), loss, 0.0
        self.members: dict[str, Member] = {}
        for name, each in groups.items():
            self.join(name, each, aup)

    def join(self, name: str, groups: tuple[str, ...], aup: Aup = UNLIMITED) -> Member:
        self.members[name] = member = Member(name, groups, aup, Random(self.rng.getrandbits(32)))
        self._broadcast([encode(Report(name, aup.version, ()))])
        return member

    def epoch(self, wanted: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """One epoch; what each has sent."""
        sent = {name: member.allowed(wanted.get(name, {})) for name, member in self.members.items()}
        for name, member in self.members.items():
            for group, size in wanted.get(name, {}).items():
                member.tally.wanted(member.places[group], int(size), int(size / PACKET))
        for sender, amounts in sent.items():
            for group, size in amounts.items():
                for member in self.members.values():
                    if size and group in member.places:
                        member.tally.sent(group, sender, int(size), max(int(size / PACKET), 1))
        seen = {name: member.tally.observation() for name, member in self.members.items()}
        messages = []
        for name, member in self.members.items():
            end = member.node.end_epoch(seen[name])
            said = (member.tally.report(end.reported), end.demand, end.policy)
            messages += [encode(each) for each in said if each is not None]
        self._broadcast(messages)
        for name, member in self.members.items():
            member.node.react(seen[name])
            member.node.check_invariants()
            member.tally.clear()
        return {name: sum(amounts.values()) for name, amounts in sent.items()}

    def _broadcast(self, messages: list[bytes]) -> None:
        for data in messages:
            for member in self.members.values():
                if self.rng.random() >= self.loss:
                    member.node.hear(decode(data))
                    if self.rng.random() < self.repeat:
                        member.node.hear(decode(data))

    def slowed(self) -> int:
        return sum(len(member.node.slowed()) for member in self.members.values())
