"""A backup under way, and the folders that a broker writes into."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.live.backup import ASKED_S_MAX, Backup, check_folder
from penstock.live.errors import ConfigError
from penstock.live.store import BackupError


def test_a_backup_tells_how_far_it_is_and_how_it_ended(tmp_path: Path) -> None:
    backup = Backup(tmp_path)
    backup.note(3, 10)
    assert (backup.as_dict()["pages_done"], backup.as_dict()["pages_total"], backup.is_over) == (7, 10, False)
    backup.finish()
    assert (backup.as_dict()["pages_done"], backup.state, backup.is_over) == (10, "done", True)
    backup.fail("why")
    assert (backup.state, backup.reason, backup.is_over) == ("failed", "why", True)


def test_a_backup_that_is_cancelled_or_forgotten_ends(tmp_path: Path) -> None:
    backup = Backup(tmp_path)
    backup.is_cancelled = True
    with pytest.raises(BackupError, match="it was cancelled"):
        backup.note(3, 10)
    forgotten = Backup(tmp_path)
    forgotten.asked_s -= ASKED_S_MAX + 1
    with pytest.raises(BackupError, match="nobody asked about it any more"):
        forgotten.note(3, 10)


def test_only_an_empty_private_folder_that_was_made_for_a_backup_will_do(tmp_path: Path) -> None:
    good = tmp_path / "b.unfinished"
    good.mkdir(0o700)
    check_folder(good)
    wide = tmp_path / "w.unfinished"
    wide.mkdir(0o755)
    link = tmp_path / "l.unfinished"
    link.symlink_to(good)
    used = tmp_path / "u.unfinished"
    used.mkdir(0o700)
    (used / "store.sqlite").touch()
    for folder in (wide, link, used):
        with pytest.raises(ConfigError, match="is not an empty folder that belongs to the broker's user alone"):
            check_folder(folder)
    for folder in (Path("b.unfinished"), tmp_path, Path()):
        with pytest.raises(ConfigError, match="is not the absolute path of a folder"):
            check_folder(folder)
    with pytest.raises(ConfigError, match="No such file or directory"):
        check_folder(tmp_path / "none.unfinished")
