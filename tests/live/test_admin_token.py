"""The token of the admin API is made once, for the broker's user only, and found by commands."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from live.support import guaranteed
from penstock.live.admin_token import FILE_NAME, find_token, make_token
from penstock.live.errors import ConfigError
from penstock.live.overlay import BrokerPlace, Overlay, Security

KEY = "key"


def made(folder: Path) -> tuple[Overlay, BrokerPlace]:
    overlay = guaranteed(folder)
    return overlay, overlay.place_of("b1")


def test_a_token_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    overlay, place = made(tmp_path)
    token = make_token(overlay, place)
    assert len(token) == 64
    assert make_token(overlay, place) == find_token(overlay, place) == token
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_the_token_of_the_overlay_file_comes_first_and_needs_no_other(tmp_path: Path) -> None:
    overlay, place = made(tmp_path)
    overlay = replace(overlay, security=Security(admin_token=KEY))
    assert make_token(overlay, place) == find_token(overlay, place) == KEY
    assert not (tmp_path / FILE_NAME).exists()


def test_a_broker_without_a_data_folder_has_none_and_commands_are_told_what_to_do(tmp_path: Path) -> None:
    overlay, place = made(tmp_path)
    place = replace(place, data=None)
    assert make_token(overlay, place) == ""
    with pytest.raises(ConfigError, match=r"no data folder for an admin token; set \[security\] admin_token"):
        find_token(overlay, place)


@pytest.mark.parametrize("content", ["", "short", "x" * 64, "\u00e9" * 64])
def test_what_is_no_token_is_replaced(content: str, tmp_path: Path) -> None:
    overlay, place = made(tmp_path)
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(ConfigError, match="there is no token in"):
        find_token(overlay, place)
    assert len(make_token(overlay, place)) == 64
    assert find_token(overlay, place) == make_token(overlay, place)


def test_a_token_that_others_could_read_is_taken_from_them(tmp_path: Path) -> None:
    overlay, place = made(tmp_path)
    token = make_token(overlay, place)
    (tmp_path / FILE_NAME).chmod(0o644)
    assert make_token(overlay, place) == token
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    overlay, place = made(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("a" * 64)
    (tmp_path / FILE_NAME).symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="cannot be kept in"):
        make_token(overlay, place)
    with pytest.raises(ConfigError, match="cannot be read"):
        find_token(overlay, place)


def test_who_may_not_read_it_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overlay, place = made(tmp_path)
    make_token(overlay, place)

    def refuse(path: Path, *_: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    # By modes this could not be tried as root, who may read everything.
    monkeypatch.setattr("penstock.live.admin_token.os.open", refuse)
    with pytest.raises(ConfigError, match="run this as the user of the broker"):
        find_token(overlay, place)


def test_a_broker_whose_data_is_elsewhere_gets_a_folder_for_it(tmp_path: Path) -> None:
    overlay, place = made(tmp_path / "data" / "b1")
    token = make_token(overlay, place)
    assert find_token(overlay, place) == token
    assert stat.S_IMODE((tmp_path / "data" / "b1").stat().st_mode) == 0o700
