"""A reporter that is quiet takes all that any reporter is told, and writes nothing."""

from __future__ import annotations

import pytest

from penstock.model.reporting import QuietReporter, Reporter


def test_a_quiet_reporter_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    reporter: Reporter = QuietReporter()
    reporter.stage("three steps", total=3)
    reporter.advance()
    reporter.advance(2)
    reporter.note("done")
    assert tuple(capfd.readouterr()) == ("", "")
