from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from penstock.model.message import Message
from penstock.pipeline.sink.errors import SinkError
from penstock.pipeline.sink.staging import Row, Staged, StagedRows, read_rows, told, write_rows

ROWS = [
    Row("ab"[place % 2], Message({"place": place, "ä": 1.5, "is": True}, bytes([place]) * place, "x/y"))
    for place in range(200)
]


def test_what_is_staged_is_read_as_it_was(tmp_path: Path) -> None:
    staged = write_rows(iter(ROWS), tmp_path, "some/folder")
    assert (staged.rows, staged.pubends) == (len(ROWS), {"a": 100, "b": 100})
    assert staged.size == (tmp_path / staged.path).stat().st_size
    assert list(read_rows(tmp_path, staged)) == ROWS


def test_every_attempt_has_a_file_of_its_own(tmp_path: Path) -> None:
    first, second = (write_rows(ROWS[:1], tmp_path, "f") for _ in range(2))
    assert first.path != second.path
    assert first.crc == second.crc


def test_no_rows_are_rows_too(tmp_path: Path) -> None:
    assert list(read_rows(tmp_path, write_rows([], tmp_path, "f"))) == []


@pytest.mark.parametrize("harm", ["flip", "cut", "grow", "delete"])
def test_damage_is_found_before_the_first_row_is_read(tmp_path: Path, harm: str) -> None:
    staged = write_rows(ROWS, tmp_path, "f")
    path = tmp_path / staged.path
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    changed = {"flip": bytes(data), "cut": bytes(data[:-1]), "grow": path.read_bytes() + b"\0"}
    path.unlink() if harm == "delete" else path.write_bytes(changed[harm])
    with pytest.raises(SinkError, match=r"cannot be read|damaged"):
        next(read_rows(tmp_path, staged))


def test_a_row_that_fits_no_frame_is_refused(tmp_path: Path) -> None:
    large = Message({f"a{place}": "x" * 60_000 for place in range(200)})
    with pytest.raises(SinkError, match="over the limit of 1,048,576"):
        write_rows([Row("q", large)], tmp_path, "f")


def test_a_column_that_holds_no_names_of_pubends_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="more than 10,000 pubends"):
        write_rows((Row(str(place), Message({})) for place in range(10_001)), tmp_path, "f")


def test_what_tasks_tell_travels_and_failed_tasks_tell_nothing() -> None:
    staged = Staged(StagedRows("p", 1, 2, 3), "query")
    assert told([pickle.loads(pickle.dumps(staged)), None]) == [staged]  # noqa: S301
