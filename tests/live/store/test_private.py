"""A store is for its broker's user only."""

from __future__ import annotations

import stat
from contextlib import closing
from pathlib import Path

from penstock.live.store import LogStore, SetValue
from penstock.live.store.private import make_private_folder, tighten


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def opened(folder: Path) -> LogStore:
    return LogStore.open(folder, overlay="o", broker="b", reserve_bytes=4_096)


def test_a_new_store_is_made_for_its_user_only(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "b"
    with closing(opened(folder)) as store:
        store.commit([SetValue("a", b"1")])
        assert store.recovery.tightened == ""
        assert mode(folder) == 0o700
        files = sorted(folder.iterdir())
        assert {"store.sqlite", "store.sqlite-wal", "witness", "reserve"} <= {file.name for file in files}
        assert {file.name: oct(mode(file)) for file in files if mode(file) != 0o600} == {}


def test_a_wider_one_is_tightened_and_that_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    opened(folder).close()
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)
    with closing(opened(folder)) as store:
        assert store.recovery.tightened.startswith("others could read reserve, store.sqlite")
        assert mode(folder) == 0o700
        assert {mode(file) for file in folder.iterdir()} == {0o600}
    with closing(opened(folder)) as store:
        assert store.recovery.tightened == ""


def test_what_is_not_of_the_store_is_left_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    other = tmp_path / "overlay.toml"
    other.touch(0o644)
    (tmp_path / "witness").touch(0o644)
    assert tighten(tmp_path) == "others could read witness"
    assert (mode(tmp_path), mode(other), mode(tmp_path / "witness")) == (0o755, 0o644, 0o600)


def test_a_folder_that_is_there_keeps_its_mode_until_it_is_tightened(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_private_folder(tmp_path)
    assert mode(tmp_path) == 0o755
    assert tighten(tmp_path) == f"others could read {tmp_path.name}"
    assert mode(tmp_path) == 0o700
