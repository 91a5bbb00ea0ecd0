"""Journals of the live fuzz survive kills: a line is whole, or as if it had never been written."""

from __future__ import annotations

from pathlib import Path

from bench.live_fuzz.journal import Journal, read_journal
from bench.live_fuzz.readings import stored_positions


def kinds(path: Path) -> list[str]:
    return [line[0] for line in read_journal(path)]


def test_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.write("sent", "p", 1, {"symbol": "S01"})
    journal.write("end")
    (first, last) = read_journal(tmp_path / "j")
    assert first[0] == "sent"
    assert first[2:] == ["p", 1, {"symbol": "S01"}]
    assert last[1] >= first[1]


def test_a_journal_that_nobody_wrote_is_empty(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "j") == []


def test_a_torn_line_is_left_out_and_the_next_life_begins_on_a_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "j"
    Journal(path).write("one")
    with path.open("ab") as file:
        file.write(b'["torn",12,{"a')
    assert kinds(path) == ["one"]
    Journal(path).write("two")
    assert kinds(path) == ["one", "two"]


def test_the_next_life_goes_on_with_the_last_positions_that_were_stored(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = Journal(path)
    assert stored_positions(path, 0) == {}
    journal.write("got", 0, [], {"q": 5})
    journal.write("got", 1, [], {"q": 9})
    journal.write("got", 0, [["q", 5, "p", 1]], {"q": 6})
    with path.open("ab") as file:
        file.write(b'["got",12,0,[],{"q":7')
    assert stored_positions(path, 0) == {"q": 6}
    Journal(path).write("refused", 0, "not kept")
    assert stored_positions(path, 0) == {}
    assert stored_positions(path, 1) == {"q": 9}
