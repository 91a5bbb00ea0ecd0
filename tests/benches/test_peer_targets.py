from __future__ import annotations

import pytest
from bench.peers.__main__ import _cases
from bench.peers.rounds import Outcome, Row, rows_of
from bench.peers.targets import TARGETS, Figure, Target, Verdict, targets_of, verdicts
from bench.peers.workloads import GROUPS

OURS = Figure("topics", "some", "Penstock", "cpu_us")
OTHER = Figure("topics", "some", "NATS", "cpu_us")


def rows(figure: Figure, *values: float) -> list[Row]:
    outcomes = [Outcome(figure.group, figure.workload, figure.contender, {figure.name: value}) for value in values]
    return rows_of(outcomes)


@pytest.mark.parametrize("group", GROUPS)
def test_every_target_is_about_figures_that_are_measured(group: str) -> None:
    measured = {(case.workload, case.contender) for case in _cases(group, seed=0, quick=False)}
    named = [figure for target in TARGETS for figure in (target.ours, target.other) if figure is not None]
    found = [figure for figure in named if figure.group == group]
    assert found
    assert {(figure.workload, figure.contender) for figure in found} <= measured
    assert {figure.name for figure in found} <= set(GROUPS[group].columns)


def test_no_two_targets_have_the_same_text() -> None:
    assert len({target.text for target in TARGETS}) == len(TARGETS)


@pytest.mark.parametrize(
    ("is_at_most", "measured", "word"),
    [
        (True, 1.04, "met"),
        (True, 1.05, "met"),
        (True, 1.06, "missed"),
        (False, 1.04, "missed"),
        (False, 1.05, "met"),
        (False, 1.06, "met"),
        (False, None, "not measured"),
        (True, None, "not measured"),
    ],
)
def test_a_target_is_met_up_to_its_bound_and_with_it(is_at_most: bool, measured: float | None, word: str) -> None:
    assert Verdict(Target("some", OURS, 1.05, OTHER, is_at_most=is_at_most), measured).word == word


def test_bounds_are_shown_with_their_direction_and_as_a_ratio_where_they_are_one() -> None:
    assert Target("some", OURS, 1.05, OTHER, is_at_most=True).wanted == "≤ 1.05 ×"
    assert Target("some", OURS, 3_000_000).wanted == "≥ 3,000,000"


def test_verdicts_are_computed_from_medians() -> None:
    target = next(each for each in TARGETS if each.text == "topics: CPU beside NATS")
    assert target.other is not None
    measured = rows(target.ours, 60.0, 10.0, 20.0) + rows(target.other, 40.0, 50.0, 900.0)
    judged = {each.target.text: each for each in verdicts(measured)}
    assert (judged[target.text].measured, judged[target.text].word) == (0.4, "met")


def test_a_target_without_its_rows_or_beside_a_zero_is_not_measured() -> None:
    target = next(each for each in TARGETS if each.other is not None)
    assert target.other is not None
    for found in ([], rows(target.ours, 1.0), rows(target.other, 1.0), rows(target.ours, 1.0) + rows(target.other, 0)):
        judged = {each.target.text: each.word for each in verdicts(found)}
        assert judged[target.text] == "not measured"


def test_only_targets_of_the_groups_that_were_asked_for_are_judged() -> None:
    assert {each.ours.group for each in targets_of(["stomp-topics", "work"])} == {"stomp-topics", "work"}
    assert targets_of(GROUPS) == list(TARGETS)


def test_a_figure_without_a_peer_is_judged_by_itself() -> None:
    target = next(each for each in TARGETS if each.text == "topics: p99 in ms")
    judged = {each.target.text: each.word for each in verdicts(rows(target.ours, 0.9, 1.2, 0.8))}
    assert judged[target.text] == "met"
