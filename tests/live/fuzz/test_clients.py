"""Client processes of the live fuzz end with all that they have forked, whoever ends them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from bench.live_fuzz.clients import ClientProcess
from bench.live_fuzz.diary import PublisherSpec
from bench.live_fuzz.journal import read_journal
from bench.live_fuzz.plan import PublisherPlan

from penstock.lab.delivery.kill9.process import alive
from penstock.lab.demo_overlay import free_ports
from penstock.system.loop import run

WAIT_S = 60.0


@pytest.fixture
def forked(tmp_path: Path) -> Iterator[ClientProcess]:
    """A publisher with two children that try to reach a broker that is not there."""
    plan = PublisherPlan("p0", "forked", ("b1",), (), 10.0, cancels=False, children=2)
    spec = PublisherSpec(plan, 1, f"penstock://127.0.0.1:{free_ports(1)[0]}", fork_first=True)
    process = ClientProcess("bench.live_fuzz.publisher", "p0", msgspec.json.encode(spec), tmp_path)
    process.start()
    deadline_s = time.monotonic() + WAIT_S
    while sum(line[0] == "client" for line in read_journal(process.journal)) < 2:
        assert time.monotonic() < deadline_s
        assert process.is_running
    yield process
    process.kill()


def all_gone(family: dict[int, str]) -> bool:
    deadline_s = time.monotonic() + WAIT_S
    while alive(family):
        if time.monotonic() > deadline_s:
            return False
    return True


def test_a_kill_ends_the_forked_children_too(forked: ClientProcess) -> None:
    family = forked.children()
    assert len(family) == 2
    forked.kill()
    assert all_gone(family)


def test_a_publisher_that_is_told_to_finish_ends_with_its_children(forked: ClientProcess) -> None:
    family = forked.children()
    forked.say("finish")
    assert run(forked.ended(patience_s=WAIT_S))
    assert forked.exit_code == 0
    assert all_gone(family)


def test_processes_do_not_outlive_the_fuzz(forked: ClientProcess) -> None:
    family = forked.children()
    forked.abandon()
    assert run(forked.ended(patience_s=WAIT_S))
    assert all_gone(family)
