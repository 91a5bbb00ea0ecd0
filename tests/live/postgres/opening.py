"""Opens stores in a database for one test, and remembers what they said while they waited."""

from __future__ import annotations

from contextlib import ExitStack, closing

from penstock.lab.databases import DatabaseServer
from penstock.live.postgres.holdings import Holdings
from penstock.live.postgres.place import DatabasePlace
from penstock.live.postgres.store import DatabaseStore
from penstock.live.store import StoreFailedError
from penstock.live.tenure import Tenure

__all__ = ["Opener", "url_of"]


class Opener:
    """Opens stores of broker b1 in an overlay of its own."""

    def __init__(self, overlay: str, stack: ExitStack) -> None:
        self.overlay, self.stack = overlay, stack
        self.said: dict[str, None] = {}
        self.may_wait = True

    def open(
        self, *servers: DatabaseServer, tenure: Tenure | None = None, replicas_min: int = 0, answer_ms: int = 10_000
    ) -> DatabaseStore:
        """Open the store of broker b1; it is closed after the test."""
        place = DatabasePlace(
            url_of(*servers), self.overlay, "b1", tenure=tenure, replicas_min=replicas_min, answer_ms=answer_ms
        )
        return self.stack.enter_context(closing(place.open(self._on_wait)))

    def holdings(self, *servers: DatabaseServer) -> Holdings:
        """Ask who holds the store, as a candidate would."""
        return self.stack.enter_context(
            closing(Holdings(url_of(*servers), overlay=self.overlay, home="b1", answer_ms=10_000))
        )

    def damage(self, server: DatabaseServer, first_tick: int) -> None:
        """Change the bytes of the batch that begins at a tick."""
        number = server.execute(f"SELECT number FROM penstock.stores WHERE overlay = '{self.overlay}'")
        where = f"store = {number} AND first = {first_tick - 2**63}"
        server.execute(f"UPDATE penstock.batches SET body = 'abcdefghijk' WHERE {where}")

    def _on_wait(self, reason: str) -> None:
        self.said[reason] = None
        if not self.may_wait:
            raise StoreFailedError("nobody waits any more")


def url_of(*servers: DatabaseServer) -> str:
    """The url of a database with these servers."""
    return f"postgresql://penstock@{','.join(f'127.0.0.1:{each.port}' for each in servers)}/postgres"
