"""Away from a terminal progress is a line per stage on standard error, or nothing."""

from __future__ import annotations

import pytest

from penstock.cli.progress import ProgressReporter


def test_each_stage_is_a_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressReporter() as reporter:
        reporter.stage("reading [all]", total=2)
        reporter.advance()
        reporter.stage("writing")
        reporter.advance()
        reporter.note("done")
    assert capsys.readouterr() == ("", "reading [all]\nwriting\ndone\n")


def test_a_short_command_can_ask_for_silence(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressReporter(quiet_unless_terminal=True) as reporter:
        reporter.stage("matching", total=10)
        reporter.advance(10)
    assert capsys.readouterr() == ("", "")
