"""When subscribers count as spread; ``test_telling`` sees it happen."""

from __future__ import annotations

import pytest

from penstock.cli.story.spreading import spread_of

CLIENTS = {"sb1": 8, "sb2": 6, "sb3": 4, "sb4": 2}
LOADS = {"sb1": 0.30, "sb2": 0.40, "sb3": 0.30, "sb4": 0.28}


def test_all_have_some_and_about_the_same_load() -> None:
    assert spread_of(CLIENTS, LOADS)


@pytest.mark.parametrize(
    ("clients", "loads"),
    [
        (CLIENTS | {"sb4": 0}, LOADS),
        ({"sb1": 20}, LOADS),
        (CLIENTS, LOADS | {"sb4": 0.1}),
        (CLIENTS, {"sb1": 0.3}),
        (CLIENTS, {}),
    ],
)
def test_otherwise_they_are_not(clients: dict[str, int], loads: dict[str, float]) -> None:
    assert not spread_of(clients, loads)
