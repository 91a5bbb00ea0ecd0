"""What a seed draws for the proof of pubends that move: every kind of blow, always for longer than a lease."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from penstock.lab.failover.plan import (
    CANDIDATES,
    HOSTS,
    JOBS,
    KINDS,
    LAYOUT,
    PLAN,
    REPLICAS_MIN,
    draw_blows,
    lease_of,
    pubend_tables,
)
from penstock.live.config import load_overlay
from penstock.model.values import AttributeValue
from penstock.selectors.selector import Selector

PORTS = {name: 7_001 + place for place, name in enumerate(PLAN.pubends)}


def test_a_seed_draws_the_same_blows_again() -> None:
    first, again, other = (draw_blows(Random(seed), 30, lease_ms=2_000) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_every_kind_of_blow_comes_again_and_again_for_the_holder_of_each_pubend() -> None:
    blows = draw_blows(Random(3), 10 * len(KINDS), lease_ms=2_000)
    kinds = [each.kind for each in blows]
    assert all({*kinds[place : place + len(KINDS)]} == {*KINDS} for place in range(0, len(kinds), len(KINDS)))
    assert {each.pubend for each in blows} == {*REPLICAS_MIN}


@pytest.mark.parametrize("lease_ms", [500, 2_000])
def test_whoever_is_stopped_or_cut_off_is_so_for_longer_than_its_lease(lease_ms: int) -> None:
    blows = draw_blows(Random(4), 100, lease_ms=lease_ms)
    assert all(each.pause_s * 1_000 > lease_ms for each in blows if each.kind in {"stop", "cut", "stall", "silence"})


@pytest.mark.parametrize(("profile", "lease_ms"), [("calm", 2_000), ("swift", 500)])
def test_brokers_read_the_plan(tmp_path: Path, profile: str, lease_ms: int) -> None:
    file = tmp_path / "overlay.toml"
    file.write_text(
        PLAN.toml(PORTS) + pubend_tables("postgresql://penstock@127.0.0.1:7,127.0.0.1:8/x", profile=profile)
    )
    overlay = load_overlay(file)
    assert {home.pubend: home.candidates for home in overlay.homes.values()} == dict.fromkeys(REPLICAS_MIN, CANDIDATES)
    assert {home.pubend: home.database.replicas_min for home in overlay.homes.values()} == REPLICAS_MIN
    assert {home.lease.lease_ms for home in overlay.homes.values()} == {lease_ms} == {lease_of(profile).lease_ms}


def test_every_host_is_linked_with_every_candidate_and_has_all_kinds_of_clients() -> None:
    assert all((host, candidate) in PLAN.links for host in HOSTS for candidate in CANDIDATES)
    doors = {door for each in LAYOUT.publishers for door in each.doors}
    assert doors == {each.host for each in LAYOUT.subscribers} == {*HOSTS}
    assert {each.pubend for each in LAYOUT.publishers} == {*REPLICAS_MIN}
    assert [sum(bool(each.durable) for each in LAYOUT.subscribers if each.host == host) for host in HOSTS] == [1, 1]
    assert [sum(each.reports for each in LAYOUT.subscribers if each.host == host) for host in HOSTS] == [1, 1]


def test_subscribers_get_no_jobs_and_workers_nothing_else() -> None:
    job: dict[str, AttributeValue] = {"run": "workers", "number": 0}
    message: dict[str, AttributeValue] = {"publisher": 0, "number": 1, "symbol": "S01", "volume": 5}
    selectors = {each.selector for each in LAYOUT.subscribers}
    assert [[Selector.parse(each).matches(found) for each in selectors] for found in (job, message)] == [
        [False] * len(selectors),
        [True] * len(selectors),
    ]
    assert [Selector.parse(JOBS).matches(found) for found in (job, message)] == [True, False]
