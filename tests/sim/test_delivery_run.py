"""A run says how it failed, the worst first, and tells its story."""

from __future__ import annotations

from penstock.sim.delivery_run import DeliveryRun, Failure
from penstock.sim.faults import Blow
from penstock.sim.verdict import Verdict


def test_failures_are_told_apart_the_worst_first() -> None:
    run = DeliveryRun("7")
    assert (run.failure, run.is_sound, run.complaint) == (None, True, "")
    run.unconverged = "sub-1 is not connected"
    assert (run.failure, run.complaint) == (Failure.NO_PROGRESS, "sub-1 is not connected")
    run.verdict = Verdict(lost=3, problems=["sub-1: misses this"])
    # What has not come may still come.
    assert run.failure is Failure.NO_PROGRESS
    run.verdict.reordered = 1
    assert (run.failure, run.complaint) == (Failure.BROKEN_LAW, "sub-1: misses this")
    run.exceeded = ["b1 has 9 bytes"]
    assert run.complaint == "b1 has 9 bytes"
    run.crash = "edge.py:3 learn: assert x\nAssertionError: x"
    assert (run.failure, run.complaint) == (Failure.CRASH, "AssertionError: x")


def test_what_is_lost_in_a_world_at_rest_breaks_a_law() -> None:
    assert DeliveryRun("7", verdict=Verdict(lost=1)).failure is Failure.BROKEN_LAW
    assert DeliveryRun("7", exceeded=["b1 has 9 bytes"]).failure is Failure.BROKEN_LAW


def test_a_story_has_the_plan_the_timeline_and_the_lines_of_those_concerned() -> None:
    run = DeliveryRun(
        "7",
        ["links: b1-b2"],
        simulated_ms=12_345,
        verdict=Verdict(duplicated=1, problems=["sub-1: this came twice"]),
        timeline=[Blow(1_500, "b1 crashes")],
        lines=["     1.000000 sub-1        gets 1", "     2.000000 sub-2        gets 2"],
    )
    assert run.story().splitlines() == [
        "seed 7: broken law, 12.3 s simulated",
        "  overlay:",
        "    links: b1-b2",
        "  timeline:",
        "        1.500 b1 crashes",
        "  broken laws:",
        "    sub-1: this came twice",
        "  the end of the trace, for those concerned:",
        "         1.000000 sub-1        gets 1",
    ]
    run.verdict.problems = ["nobody in particular"]
    assert run.story().splitlines()[-1].endswith("gets 2")


def test_the_story_of_a_sound_run_is_short() -> None:
    assert DeliveryRun("7", ["links: b1-b2"]).story().splitlines()[0] == "seed 7: sound, 0.0 s simulated"
