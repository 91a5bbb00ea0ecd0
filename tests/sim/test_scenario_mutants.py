"""The deliberate bugs of ``make mutants`` fit the sources: each at one place, and what comes of it is still Python."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest
from bench.mutants import mutate
from bench.planted import MUTANTS, Mutant

from penstock.model.errors import MisuseError

SOURCES = Path(__file__).resolve().parents[2] / "src" / "penstock"


def copied(file: str, folder: Path) -> Path:
    target = folder / "penstock" / file
    target.parent.mkdir(parents=True)
    shutil.copy(SOURCES / file, target)
    return target


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_a_mutant_fits_one_place(mutant: Mutant, tmp_path: Path) -> None:
    target = copied(mutant.file, tmp_path)
    before = target.read_text()
    mutate(mutant, tmp_path)
    assert target.read_text() != before
    ast.parse(target.read_text())


def test_a_mutant_that_fits_nowhere_is_refused(tmp_path: Path) -> None:
    copied("broker/host/edge.py", tmp_path)
    with pytest.raises(MisuseError, match="mutant lost fits 0 places"):
        mutate(Mutant("lost", "", "broker/host/edge.py", "no such line", ""), tmp_path)


def test_mutants_have_names_of_their_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 12
