"""Structured logs."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from penstock.system.logs import LEVELS, configure_logs, level_of, log, log_bug


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    logger = logging.getLogger("penstock")
    handlers, level, propagate = list(logger.handlers), logger.level, logger.propagate
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)


def logged(*, level: str = "info", as_json: bool = False) -> io.StringIO:
    stream = io.StringIO()
    configure_logs(level=level, as_json=as_json, stream=stream)
    return stream


def test_a_line_for_people_has_time_level_event_and_details() -> None:
    stream = logged()
    log("link-up", (("broker", "pb1"), ("neighbour", "ib1"), ("reason", "two words"), ("count", 3)))
    line = stream.getvalue()
    assert line.endswith(' info    link-up broker=pb1 neighbour=ib1 reason="two words" count=3\n')
    assert line[10] == "T"
    assert line.split()[0].endswith("Z")


def test_a_line_for_programs_is_one_json_object() -> None:
    stream = logged(as_json=True)
    log("closed", (("code", "slow"), ("event", "forged"), ("bytes", 5)))
    found = json.loads(stream.getvalue())
    assert found.pop("time")
    assert found == {"level": "warning", "event": "closed", "code": "slow", "bytes": 5}


@pytest.mark.parametrize("as_json", [False, True])
def test_nobody_can_write_a_line_of_his_own(as_json: bool) -> None:
    stream = logged(as_json=as_json)
    log("closed", (("reason", "x\n2026-01-01T00:00:00.000Z error forged\r\x1b[31m"),))
    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b" not in stream.getvalue()


def test_what_is_below_the_level_is_not_written() -> None:
    stream = logged(level="warning")
    log("link-up")
    log("link-down")
    assert stream.getvalue().count("\n") == 1
    assert "link-down" in stream.getvalue()


def test_configuring_again_replaces() -> None:
    first, second = logged(), logged()
    log("started")
    assert first.getvalue() == ""
    assert second.getvalue().count("started") == 1


@pytest.mark.parametrize("as_json", [False, True])
def test_a_bug_comes_with_its_trace(as_json: bool) -> None:
    stream = logged(as_json=as_json)
    try:
        raise ValueError("the cause")
    except ValueError as error:
        log_bug("bug", (("broker", "b1"),), error)
    assert "the cause" in stream.getvalue()
    assert "test_logs.py" in stream.getvalue()


@pytest.mark.parametrize(
    ("event", "code", "level"),
    [
        ("link-up", "", logging.INFO),
        ("link-down", "", logging.WARNING),
        ("dial-failed", "", logging.WARNING),
        ("closed", "shutdown", logging.INFO),
        ("closed", "protocol", logging.WARNING),
        ("bug", "", logging.ERROR),
    ],
)
def test_trouble_is_louder(event: str, code: str, level: int) -> None:
    assert level_of(event, (("code", code),)) == level


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_can_be_asked_for(level: str) -> None:
    logged(level=level)
    assert logging.getLogger("penstock").level == getattr(logging, level.upper())
