"""What the tests of commands share: two live brokers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import PLAN, Commands, running
from penstock.lab.demo_overlay import free_ports


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Commands]:
    """A publisher-hosting and a subscriber-hosting broker that have found each other."""
    ports = dict(zip(PLAN.pubends, free_ports(len(PLAN.pubends)), strict=True))
    file = tmp_path / "overlay.toml"
    file.write_text(PLAN.toml(ports))
    with running(file, list(ports)) as nodes:
        yield Commands(file, ports, nodes)


@pytest.fixture(autouse=True)
def restored_logs() -> Iterator[None]:
    """A command that configures the log writes to a stream that ends with it: later tests must not log there."""
    logger = logging.getLogger("penstock")
    handlers, level, propagate = list(logger.handlers), logger.level, logger.propagate
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)
