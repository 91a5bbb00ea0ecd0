"""The campaign ``live`` plays real rounds when it is asked to, tells what came of them, and leaves nothing behind."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from bench import soak
from bench.live_fuzz import campaign
from bench.live_fuzz.judge import judge_round
from bench.live_fuzz.plan import Blow, Limits, PublisherPlan, RoundPlan, SubscriberPlan, SubscriptionPlan
from bench.live_fuzz.world import Played, play_round

from penstock.lab.delivery.kill9.process import descendants
from penstock.system.loop import run

LIVE = ["--campaign", "live"]


def small_plan(blows: Sequence[Blow] = (), *, harm_s: float = 2.0) -> RoundPlan:
    subscriptions = (
        SubscriptionPlan(0, "durable", "all", "latest", "fail", "batch"),
        SubscriptionPlan(1, "stored", "", "earliest", "fail", "get"),
    )
    return RoundPlan(
        seed=1,
        pubends={"b1": ("b1.a",), "b2": ()},
        links=(("b2", "b1"),),
        limits=Limits(others={"heartbeat_ms": 250, "silent_ms": 2_000}),
        publishers=(PublisherPlan("p0", "async", ("b1",), (), 50.0, cancels=True),),
        subscribers=(SubscriberPlan("s0", ("b2",), subscriptions, is_sync=False, cancels=True),),
        blows=tuple(blows),
        harm_s=harm_s,
    )


@pytest.mark.live
def test_a_real_round_with_a_kill_and_a_cut_is_clean_and_leaves_no_process(tmp_path: Path) -> None:
    before = descendants(os.getpid())
    blows = [Blow(0.2, "cut", ("b2", "b1"), 0.2), Blow(0.4, "kill", "b1", 0.0), Blow(0.5, "death", "s0", 0.0)]
    acknowledged = delivered = 0
    # On a busy machine the publisher may not even have started when a short round is over.
    for harm_s in (2.0, 8.0, 32.0):
        folder = tmp_path / str(harm_s)
        folder.mkdir()
        plan = small_plan(blows, harm_s=harm_s)
        played = run(play_round(plan, folder))
        verdict = judge_round(plan, folder)
        assert (played.crashes, played.stuck, verdict.faults) == ([], [], [])
        assert played.blows == {"cut": 1, "kill": 1, "death": 1}
        acknowledged, delivered = verdict.counts["acknowledged"], verdict.counts["delivered"]
        if acknowledged:
            break
    assert acknowledged > 0
    assert delivered >= acknowledged
    assert descendants(os.getpid()).keys() <= before.keys()


class Staged:
    """Rounds whose outcome follows from their seed: seed 1 gets stuck, 2 crashes, the others are clean."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seeds: list[int] = []
        monkeypatch.setattr(campaign, "play_round", self.play)

    async def play(self, plan: RoundPlan, folder: Path) -> Played:
        self.seeds.append(plan.seed)
        played = Played(blows=Counter(kill=2))
        if plan.seed == 1:
            played.stuck.append("s0 had not finished")
        if plan.seed == 2:
            played.crashes.append("b1 ended by itself")
        return played


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Staged:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return Staged(monkeypatch)


@pytest.mark.parametrize(("first", "seeds", "code"), [(3, 2, 0), (1, 1, 2), (1, 2, 3)])
def test_the_exit_code_tells_the_worst_failure(staged: Staged, first: int, seeds: int, code: int) -> None:
    assert soak.main([*LIVE, "--first", str(first), "--seeds", str(seeds)]) == code
    assert staged.seeds == list(range(first, first + seeds))


def test_a_fault_tells_its_seed_and_keeps_its_folder_and_a_clean_round_does_not(
    staged: Staged, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    soak.main([*LIVE, "--first", "2", "--seeds", "2"])
    captured = capsys.readouterr()
    assert "FAULT in campaign live, seed 2: 1 faults" in captured.err
    assert "crash: b1 ended by itself" in captured.err
    assert "again: python -m bench.soak --campaign live --seeds 1 --first 2" in captured.err
    (kept,) = tmp_path.glob("penstock-live-*")
    assert kept.name.startswith("penstock-live-2-")
    assert (kept / "plan.json").exists()
    assert "blows: kill" in captured.out


def test_a_campaign_with_many_faults_stops_early(
    staged: Staged, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def get_stuck(plan: RoundPlan, folder: Path) -> Played:
        return Played(stuck=["s0 had not finished"])

    monkeypatch.setattr(campaign, "play_round", get_stuck)
    assert soak.main([*LIVE, "--seeds", "100"]) == 2
    assert "stopped at seed 9, after 10 rounds with faults" in capsys.readouterr().err


def test_minutes_end_the_campaign_whatever_the_number_of_seeds(staged: Staged) -> None:
    assert soak.main([*LIVE, "--minutes", "0"]) == 0
    assert staged.seeds == []


def test_the_campaign_does_not_run_unless_it_is_named(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in soak.CAMPAIGNS:
        monkeypatch.setitem(soak.CAMPAIGNS, name, lambda _: None)
    assert soak.main(["--seeds", "1", "--processes", "1"]) == 0
    assert staged.seeds == []


def test_a_fuzz_that_fails_itself_is_a_crash(
    staged: Staged, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(plan: RoundPlan, folder: Path) -> Played:
        raise KeyError("unexpected")

    monkeypatch.setattr(campaign, "play_round", fail)
    assert soak.main([*LIVE, "--seeds", "1"]) == 3
    assert "KeyError: 'unexpected'" in capsys.readouterr().err


def test_ctrl_c_tells_what_was_played_before(
    staged: Staged, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def interrupt(plan: RoundPlan, folder: Path) -> Played:
        if plan.seed == 5:
            raise KeyboardInterrupt
        return await staged.play(plan, folder)

    monkeypatch.setattr(campaign, "play_round", interrupt)
    with pytest.raises(SystemExit) as ended:
        soak.main([*LIVE, "--first", "3", "--seeds", "10"])
    assert ended.value.code == 130
    captured = capsys.readouterr()
    assert "interrupted" in captured.err
    assert "blows: kill" in captured.out
    assert list(tmp_path.glob("penstock-live-*")) == []
