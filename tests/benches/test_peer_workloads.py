from __future__ import annotations

import pytest
from bench.peers.__main__ import PEERS
from bench.peers.clients import LIBRARIES
from bench.peers.peer import Service
from bench.peers.workloads import GROUPS, workloads


@pytest.mark.parametrize("group", GROUPS)
def test_all_peers_of_a_workload_are_known(group: str) -> None:
    for workload in workloads(group, seed=0, quick=True):
        assert set(workload.peers) <= set(PEERS)
        assert workload.group == group
    assert {library.peer for library in LIBRARIES} <= set(PEERS)


@pytest.mark.parametrize("group", GROUPS)
def test_all_messages_have_seven_attributes(group: str) -> None:
    for workload in workloads(group, seed=0, quick=True):
        assert {len(each) for each in workload.messages} == {7}


def test_nothing_is_expected_where_nothing_matches() -> None:
    found = {each.key: each for each in workloads("selectors", seed=0, quick=True)}
    assert found["no_match_100"].expected.matches.sum() == 0
    assert found["selectors_100"].expected.matches.sum() > 0


def test_only_fan_out_delivers_the_same_bytes_to_everybody() -> None:
    for group in GROUPS:
        for workload in workloads(group, seed=0, quick=True):
            if workload.service is not Service.DURABLE:
                assert workload.is_uniform == (group == "fan-out")
