"""A host is restarted while some of its subscribers are away; they come back within their grace, or after it.

A host forgets its clients' positions when it dies, so only what it had reported holds the logs for them. Whoever comes
back within ``grace_ms`` must miss nothing, and whoever comes later must be told what it misses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from penstock.sim.client import SimClient
from penstock.sim.world import World

__all__ = ["restart_host"]

_DOWN_MS: Final = (20, 3_000, 12_000)
"""How long the host is down."""
_AWAY: Final = (0.3, 0.6, 0.9, 1.4)
"""How long its clients are away, as parts of their grace."""


def restart_host(
    world: World, subscribers: Sequence[SimClient], note: Callable[[str, str], None], *, grace_ms: int
) -> bool:
    """Restart a broker and keep some of its subscribers away, others not; whether there was one to restart.

    Everything is over after one and a half times the grace period.
    """
    chance = world.faults
    hosted: dict[str, list[SimClient]] = {}
    for client in subscribers:
        for (name, broker), link in world.links.items():
            if name == client.name and link.is_wanted:
                hosted.setdefault(broker, []).append(client)
    if not hosted:
        return False
    host = chance.choice(list(hosted))
    # Somebody should stay, if possible: a host with a client has something to report, and may say too much.
    absent = chance.sample(hosted[host], max(1, len(hosted[host]) * 2 // 3))
    note("host_restart", f"{host} is restarted without {', '.join(client.name for client in absent)}")
    world.crash(host, loud=chance.random() < 0.5)
    world.clock.after(chance.choice(_DOWN_MS) * 1_000, partial(_start_if_down, world, host))
    for client in absent:
        world.withdraw(client.name)
        away_ms = int(chance.choice(_AWAY) * grace_ms)
        back = host if chance.random() < 0.7 else chance.choice(list(world.brokers))
        world.clock.after(away_ms * 1_000, partial(world.place, client.name, back))
    return True


def _start_if_down(world: World, host: str) -> None:
    if not world.brokers[host].is_up:
        world.restart(host)
