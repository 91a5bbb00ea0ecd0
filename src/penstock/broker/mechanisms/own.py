"""The mechanisms that a broker's settings turn on: balancing, the token, and the limit on traffic."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.balancing.metrics import HostFigures
from penstock.broker.guaranteed import Guaranteed
from penstock.broker.mechanisms.balancing import Balancing
from penstock.broker.mechanisms.carrying import Mechanisms
from penstock.broker.mechanisms.interface import Mechanism
from penstock.broker.mechanisms.limiter import Limiter
from penstock.broker.mechanisms.migration import Migrations
from penstock.broker.mechanisms.token_desk import TokenDesk
from penstock.broker.neighbours.neighbourhood import Neighbourhood
from penstock.broker.rooms import Rooms
from penstock.model.ports import Rng

__all__ = ["OwnMechanisms"]


class OwnMechanisms(Mechanisms):
    """Balancing, token and limit, plus the mechanisms given by the caller."""

    def __init__(
        self,
        rooms: Rooms,
        given: Sequence[Mechanism],
        guaranteed: Guaranteed,
        limiter: Limiter,
        migrations: Migrations,
        neighbourhood: Neighbourhood,
        *,
        life: int,
        rng: Rng,
    ) -> None:
        settings = rooms.settings
        self.balancing = Balancing(rooms, migrations, rng) if settings.balancing.is_on else None
        self._token = TokenDesk(rooms, guaranteed, life=life, rng=rng)
        self._limiter = limiter
        wanted = (self.balancing, self._token, None if settings.limit is None else limiter)
        own = [each for each in wanted if each is not None]
        super().__init__(rooms, (*own, *given), guaranteed, say_to=neighbourhood.say_to, flood=neighbourhood.flood)

    def tune(self, *, now_ms: int) -> None:
        """Applies changed settings."""
        self.carry_out("token", self._token.tune(now_ms=now_ms), now_ms=now_ms)
        limit = self._rooms.settings.limit
        if limit is not None:
            self._flood(self.add(self._limiter))
            self._limiter.apply(limit)

    def operated(self, fence: str, *, now_ms: int) -> None:
        """The heavy work that the token allowed is done."""
        self.carry_out("token", self._token.on_operated(fence, now_ms=now_ms), now_ms=now_ms)

    def measured(self, figures: HostFigures, *, now_ms: int) -> None:
        """The shell has measured the machine."""
        if self.balancing is not None:
            self.balancing.measured(figures, now_ms=now_ms)
