"""A log whose messages nobody would serve any more is not passed over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from live.store.support import numbered
from live.support import guaranteed, run
from penstock.broker.durable import Append, Recovered, RecoveredPubend
from penstock.live.errors import StorageError
from penstock.live.node import BrokerNode
from penstock.live.overlay import Overlay
from penstock.live.store import LogStore
from penstock.live.unserved import check_served

FOUND = Recovered({"b1.a": RecoveredPubend(last_tick=7, first_tick=5, parts=((7, 1_234),))})


def changed(overlay: Overlay, **changes: object) -> Overlay:
    return replace(overlay, brokers={"b1": replace(overlay.brokers["b1"], **changes)})  # type: ignore[arg-type]


def test_a_log_that_is_served_or_empty_is_no_problem(tmp_path: Path) -> None:
    place = guaranteed(tmp_path).brokers["b1"]
    assert check_served(place, FOUND) == {}
    assert check_served(place, None) == {}
    loose = replace(place, best_effort=place.pubends)
    assert check_served(loose, Recovered({"b1.a": RecoveredPubend(last_tick=7)})) == {}


def test_a_pubend_that_was_removed_with_messages_is_named(tmp_path: Path) -> None:
    place = replace(guaranteed(tmp_path).brokers["b1"], pubends=("other",))
    assert check_served(place, FOUND) == {"b1.a": 1_234}


def test_a_pubend_with_messages_cannot_become_best_effort(tmp_path: Path) -> None:
    place = guaranteed(tmp_path).brokers["b1"]
    with pytest.raises(StorageError, match=r"pubend b1\.a of broker b1 is best effort now.* 1,234 bytes"):
        check_served(replace(place, best_effort=place.pubends, where="o.toml"), FOUND)


def test_a_broker_does_not_start_so_and_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    overlay = guaranteed(tmp_path)
    store = LogStore.open(tmp_path, overlay=overlay.name, broker="b1")
    store.commit([Append("b1.a", numbered(1, 5))])
    store.close()

    async def start(overlay: Overlay) -> None:
        async with BrokerNode(overlay, "b1"):
            pass

    with pytest.raises(StorageError, match="is best effort now"):
        run(start(changed(overlay, best_effort=("b1.a",))))
    run(start(overlay))
