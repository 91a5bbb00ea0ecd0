"""Lines are read from plain and gzipped files, and a file that cannot be read is named with the reason."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from penstock.model import MisuseError
from penstock.sim.workloads import lines
from penstock.sim.workloads.lines import InputFileError, open_binary, text_lines


def test_plain_and_gzipped_content_give_the_same_lines() -> None:
    content = "one\ntwo é\nthree".encode()
    expected = ["one\n", "two é\n", "three"]
    assert list(text_lines(io.BytesIO(content), "file")) == expected
    assert list(text_lines(io.BytesIO(gzip.compress(content)), "file")) == expected


@pytest.mark.parametrize("kept", [5, 15, -9, -1])
def test_a_truncated_gzip_file_is_a_clear_error(kept: int) -> None:
    whole = gzip.compress(b"".join(b"line %d\n" % number for number in range(1_000)))
    with pytest.raises(InputFileError, match=r"file, after line .*gzip"):
        list(text_lines(io.BytesIO(whole[:kept]), "file"))


def test_damaged_gzip_data_is_a_clear_error() -> None:
    whole = bytearray(gzip.compress(bytes(range(256)) * 20))
    whole[40:60] = bytes(20)
    with pytest.raises(InputFileError, match="file, after line"):
        list(text_lines(io.BytesIO(bytes(whole)), "file"))


def test_bytes_that_are_no_text_are_a_clear_error() -> None:
    with pytest.raises(InputFileError, match="file, after line 0: not UTF-8"):
        list(text_lines(io.BytesIO(b"\xff\xfe\x00"), "file"))


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_CHARS_MAX", 10)
    with pytest.raises(InputFileError, match="file, line 2: longer than 10 characters"):
        list(text_lines(io.BytesIO(b"short\n" + b"x" * 50), "file"))


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="nowhere: cannot be read: No such file"):
        open_binary(tmp_path / "nowhere")
    with pytest.raises(MisuseError, match="cannot be read: Is a directory"):
        open_binary(tmp_path)
