"""Space set aside for bad times."""

from __future__ import annotations

from pathlib import Path

from penstock.live.store.reserve import Reserve


def test_a_reserve_takes_real_space_and_gives_it_up(tmp_path: Path) -> None:
    file = tmp_path / "reserve"
    reserve = Reserve(file, 1 << 20)
    assert not reserve.held
    assert reserve.hold()
    assert file.stat().st_blocks * 512 >= 1 << 20
    assert Reserve(file, 1 << 20).held
    assert not Reserve(file, 2 << 20).held
    reserve.release()
    assert not reserve.held
    assert not file.exists()


def test_a_reserve_of_nothing_is_always_held(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "reserve", 0)
    reserve.release()
    assert reserve.held
    assert reserve.hold()
    assert list(tmp_path.iterdir()) == []


def test_a_reserve_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "missing" / "reserve", 1)
    assert not reserve.hold()
    assert not reserve.held
