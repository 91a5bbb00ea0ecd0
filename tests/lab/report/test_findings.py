"""Findings are made, kept, read again, and judged by the bands of their entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from penstock.lab.frame.experiment import Context, Experiment, Parameter
from penstock.lab.report.bands import at_most, exactly
from penstock.lab.report.chapters import Entry
from penstock.lab.report.findings import made_finding, read_finding, swept_finding
from penstock.model.errors import MisuseError
from penstock.model.reporting import QuietReporter


def _draw(figure: Figure) -> None:
    figure.subplots().set_title("a toy")


def _run(context: Context) -> Mapping[str, float]:
    context.figure(_draw)
    return {"speed": 2.0 * context.integer("size"), "lost": 0.0}


TOY = Experiment("toy", "a toy", "nowhere", (Parameter("size", 3, "how large", quick=1),), {"speed": 6}, _run)
ENTRY = Entry("toy", {"speed": at_most(5), "lost": exactly(0), "never": exactly(1)})


@dataclass
class _Estimate:
    mean: float
    low: float | None = None
    high: float | None = None


def test_a_run_is_kept_and_read_again(tmp_path: Path) -> None:
    made = made_finding(ENTRY, TOY, tmp_path, seed=4, quick=False, reporter=QuietReporter())
    assert made.means == {"speed": 6.0, "lost": 0.0}
    assert made.verdicts() == {"speed": False, "lost": True}
    assert made.figure is not None
    assert made.figure.startswith(b"\x89PNG")
    assert read_finding(ENTRY, TOY, tmp_path) == made
    assert made.seeds == "seed 4"


def test_a_quick_run_takes_the_small_values(tmp_path: Path) -> None:
    made = made_finding(ENTRY, TOY, tmp_path, seed=4, quick=True, reporter=QuietReporter())
    assert made.means["speed"] == 2.0
    # Bands are for full runs; that nothing may be lost is not a matter of size.
    assert (made.is_small, made.verdicts()) == (True, {"lost": True})
    assert read_finding(ENTRY, TOY, tmp_path) == made


def test_an_entry_with_settings_has_files_and_a_command_of_its_own(tmp_path: Path) -> None:
    entry = Entry("toy", settings=("size=7",))
    made = made_finding(entry, TOY, tmp_path, seed=1, quick=False, reporter=QuietReporter())
    assert made.command == "penstock lab run toy --seed 1 --set size=7"
    assert not made.is_small
    assert sorted(each.name for each in tmp_path.iterdir()) == ["toy-7.json", "toy-7.png"]
    assert read_finding(entry, TOY, tmp_path) == made


def test_a_sweep_is_preferred_to_a_single_run(tmp_path: Path) -> None:
    made_finding(ENTRY, TOY, tmp_path, seed=4, quick=False, reporter=QuietReporter())
    swept = swept_finding(ENTRY, TOY, tmp_path, {"speed": _Estimate(4.0, 3.0, 5.0)}, seeds="seeds 1..3")
    found = read_finding(ENTRY, TOY, tmp_path)
    assert found == swept
    assert found is not None
    assert found.measures["speed"].high == 5.0
    assert found.figure is not None


def test_nothing_is_found_in_an_empty_folder(tmp_path: Path) -> None:
    assert read_finding(ENTRY, TOY, tmp_path) is None


def test_a_damaged_result_is_named(tmp_path: Path) -> None:
    (tmp_path / "toy.json").write_text('{"experiment": "toy"')
    with pytest.raises(MisuseError, match="cannot read the result of toy in"):
        read_finding(ENTRY, TOY, tmp_path)
