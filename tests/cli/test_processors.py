"""Processors are those that this process may use, where the system tells."""

from __future__ import annotations

import os

import pytest

from penstock.cli.processors import processors


def test_processors_that_are_not_for_us_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    assert processors() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert processors() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert processors() == 1
