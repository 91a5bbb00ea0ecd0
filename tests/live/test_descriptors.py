"""A broker has as many descriptors as it may, and keeps some of them from its clients."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from penstock.live.descriptors import RESERVE, affordable

PROGRAM = """
import resource
from penstock.live.descriptors import affordable, raise_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (300, {hard}))
print(affordable())
raise_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
print(affordable())
"""


@pytest.mark.parametrize(("hard", "raised"), [(400, 400), (300, 300)])
def test_the_limit_is_raised_to_what_is_allowed_and_a_reserve_is_kept(hard: int, raised: int) -> None:
    # In a process of its own: a limit that was lowered cannot be raised again.
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(hard=hard)], capture_output=True, check=True, text=True, timeout=60
    )
    before, limit, after = map(int, ran.stdout.split())
    assert limit == raised
    assert after - before == raised - 300
    assert 0 < before < 300 - RESERVE


def test_there_is_always_room_for_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (RESERVE, hard))
    try:
        assert affordable() == 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
