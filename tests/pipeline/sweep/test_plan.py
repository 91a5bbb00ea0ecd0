"""What a sweep runs is checked before anything starts."""

from __future__ import annotations

import pytest

from penstock.lab.frame.errors import ParameterError
from penstock.pipeline.errors import SweepError
from penstock.pipeline.sweep.plan import RUNS_MAX, Run, parse_seeds, planned
from pipeline.toys import WAVE


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("7", (7,)), ("1..4", (1, 2, 3, 4)), ("3..3", (3,)), ("1..2, 9 ,5..6", (1, 2, 9, 5, 6)), ("0", (0,))],
)
def test_seeds_are_numbers_and_ranges(text: str, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "seeds '' are neither a number nor a range such as 1..100"),
        ("1-5", "seeds '1-5' are neither"),
        ("-1", "seeds '-1' are neither"),
        ("5..1", "seeds '5..1' do not rise"),
        ("1,2,1", "seed 1 is named twice"),
        (f"1..{RUNS_MAX + 1}", "are more than"),
        (str(2**63), "end above"),
    ],
)
def test_bad_seeds_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(SweepError) as caught:
        parse_seeds(text)
    assert complaint in str(caught.value)


def test_as_many_seeds_as_runs_are_allowed() -> None:
    assert len(parse_seeds(f"1..{RUNS_MAX}")) == RUNS_MAX


def test_the_grid_is_all_combinations_and_the_last_key_changes_fastest() -> None:
    plan = planned(WAVE, grid=["size=1,2", "mode=calm,wild"], settings=["seed=2.5"], seeds="4,5")
    assert [plan.swept(cell) for cell in range(4)] == [
        {"size": 1, "mode": "calm"},
        {"size": 1, "mode": "wild"},
        {"size": 2, "mode": "calm"},
        {"size": 2, "mode": "wild"},
    ]
    assert plan.fixed == {"seed": 2.5}
    assert plan.runs[:3] == [Run(0, 4), Run(0, 5), Run(1, 4)]
    assert len(plan.runs) == 8


def test_without_a_grid_there_is_one_cell_and_quick_values_hold_where_none_is_given() -> None:
    assert planned(WAVE, quick=True).cells == ({"size": 1, "mode": "calm", "seed": 1.5},)
    assert planned(WAVE, quick=True, settings=["size=4"]).cells[0]["size"] == 4


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"grid": ["size"]}, "grid 'size' is not of the form key=a,b,c"),
        ({"grid": ["size="]}, "grid 'size=' is not of the form"),
        ({"grid": ["size=1", "size=2"]}, "parameter size is swept twice"),
        ({"grid": ["size=1,01"]}, "the grid names a value of size twice: 1, 01"),
        ({"grid": ["size=1,2"], "settings": ["size=3"]}, "parameter size is both set and swept"),
        ({"grid": [f"size={2**63}"]}, "does not fit a column"),
        ({"grid": ["size=1,2"], "seeds": f"1..{RUNS_MAX}"}, f"are more than {RUNS_MAX:,} runs"),
    ],
)
def test_a_bad_grid_is_refused(arguments: dict[str, str], complaint: str) -> None:
    with pytest.raises(SweepError) as caught:
        planned(WAVE, **arguments)  # type: ignore[arg-type]
    assert complaint in str(caught.value)


@pytest.mark.parametrize("grid", ["size=1,many", "size=1,,2", "sise=1", "size=0"])
def test_values_are_checked_as_the_lab_does(grid: str) -> None:
    with pytest.raises(ParameterError):
        planned(WAVE, grid=[grid])


def test_sweeps_that_differ_have_folders_that_differ_and_seeds_make_no_difference() -> None:
    names = {
        planned(WAVE, grid=grid, settings=settings).default_folder()
        for grid, settings in ([["size=1,2"], []], [["size=1,3"], []], [["size=1,2"], ["mode=x"]], [[], ["size=1"]])
    }
    assert len(names) == 4
    assert planned(WAVE, seeds="1").default_folder() == planned(WAVE, seeds="1..9").default_folder()
