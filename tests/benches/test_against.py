from __future__ import annotations

import os
from pathlib import Path

import pytest
from bench.against import Tree, run_against

from penstock.cli.console import MISUSE


def test_packages_come_from_one_tree_and_benchmarks_from_the_other() -> None:
    tree = Tree("old", Path("/old"), Path("/new"))
    assert tree.environment["PYTHONPATH"].split(os.pathsep) == ["/old/src", "/new"]


def test_an_unknown_commit_is_misuse_and_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    code = run_against("no-such-commit", ["press"], rounds=1, seed=0, quick=True, json_file=None)
    assert code == MISUSE
    assert "no-such-commit" in capsys.readouterr().err
