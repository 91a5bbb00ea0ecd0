"""A pair of servers survives one death after the other, and says who holds what."""

from __future__ import annotations

import pytest

from penstock.lab.databases import database_folder, missing_reason, synchronous_pair
from penstock.lab.failover.servers import Holder, Servers

pytestmark = pytest.mark.skipif(bool(missing_reason()), reason=missing_reason() or "there is one")

TABLES = (
    "CREATE SCHEMA penstock; CREATE TABLE penstock.holdings (broker text, holder text, epoch bigint); "
    "INSERT INTO penstock.holdings VALUES ('orders.home', 'pb2', 3), ('quotes.home', '', 4)"
)
WAITS = "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'"


@pytest.mark.live
def test_each_primary_that_dies_comes_back_as_the_standby() -> None:
    with database_folder() as folder, synchronous_pair(folder) as pair:
        servers = Servers(*pair)
        assert servers.ports == tuple(sorted(each.port for each in pair))
        assert servers.holders() == {}
        servers.primary.execute(TABLES)
        for _ in range(2):
            former = servers.primary
            servers.kill_primary()
            promoted_s = servers.promote()
            assert servers.primary is not former
            # Nobody waits for a standby that is not there yet.
            servers.primary.execute("UPDATE penstock.holdings SET epoch = epoch + 1 WHERE holder = 'pb2'")
            servers.make_standby()
            servers.primary.execute("UPDATE penstock.holdings SET epoch = epoch + 1 WHERE holder = 'pb2'")
            assert servers.make_synchronous() > promoted_s
            assert servers.primary.execute(WAITS) == "t"
        assert servers.primary is pair[0]
        assert servers.holders() == {"orders": Holder("pb2", 7)}
