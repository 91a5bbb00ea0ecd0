"""Campaigns against migration: those against guaranteed delivery, in which brokers also make their clients move.

In the middle of a move, the old or the new broker crashes, or the client's link to either is cut. The laws stay the
same: nothing lost, duplicated or out of order, and everything comes to rest after healing.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, Final

from penstock.broker.broker import Broker
from penstock.broker.peers import PeerKind
from penstock.sim.delivery import DeliveryCampaign
from penstock.sim.world import World

__all__ = ["MigrationCampaign", "order_moves"]

_MOVED: Final = 0.5
"""Probability that clients have to move while a blow takes effect."""
_HARMED: Final = 0.6
"""Probability that such a move is harmed."""
_HARM_MS: Final = (0, 3, 30, 200, 520, 700)
"""How long after the order to move the harm comes."""


class MigrationCampaign(DeliveryCampaign):
    """One seed's overlay, harm, moves and healing."""

    def __init__(self, seed: int | str, **options: Any) -> None:
        """Draw an overlay as in the delivery campaign."""
        super().__init__(seed, **options)
        self._moves_chance = self.world.workload
        self._session = 0

    @property
    def moved(self) -> Counter[str]:
        """The outcomes of all orders to move."""
        clients = [*self.subscribers, *self.lives.clients]
        reasons = Counter(reason for client in clients for reason in client.witness.failures)
        return Counter(made=sum(client.session.moves for client in clients), failed=reasons.total()) + reasons

    def _meddle(self) -> None:
        if self._moves_chance.random() >= _MOVED:
            return
        names = [name for name, broker in self.world.brokers.items() if broker.is_up]
        if len(names) < 2:
            return
        old, new = self._moves_chance.sample(names, 2)
        self._session += 1
        moved = order_moves(self.world, old, new, session=self._session)
        if moved:
            self.faults.note("move", f"{', '.join(moved)} are to go from {old} to {new}")
        if moved and self._moves_chance.random() < _HARMED:
            self._harm_move(old, new, moved)

    def _harm_move(self, old: str, new: str, moved: list[str]) -> None:
        after_ms = self._moves_chance.choice(_HARM_MS)
        what = self._moves_chance.choice(("old", "new", "link", "link"))
        if what == "link":
            client, broker = self._moves_chance.choice(moved), self._moves_chance.choice((old, new))
            self.world.clock.after(after_ms * 1_000, partial(self.faults.cut_client, client, broker))
        else:
            self.world.clock.after(after_ms * 1_000, partial(self.faults.crash, old if what == "old" else new))


def order_moves(world: World, old: str, new: str, *, session: int) -> list[str]:
    """Have a broker order some of its clients to another one; returns their names."""
    core = world.brokers[old].core
    assert isinstance(core, Broker)
    clients = [peer for peer in core.connections.peers.values() if peer.kind is PeerKind.CLIENT]
    moved: list[str] = []
    for peer in clients:
        if world.workload.random() < 0.7 and not core.migrations.obstacle(peer.connection):
            total, now_ms = len(clients), world.clock.now_ms
            address = world.brokers[new].settings.address
            core.migrations.move(
                peer.connection, broker=new, address=address, session=session, total=total, now_ms=now_ms
            )
            moved.append(peer.name)
    return moved
