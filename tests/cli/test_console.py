"""Whatever goes wrong ends with one clear message and the agreed exit code."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest
import typer

from penstock.cli.console import console, printable, printable_json, shown_number
from penstock.model import MisuseError, PeerError


def exit_code_of(error: BaseException) -> int:
    with pytest.raises(typer.Exit) as caught, console.guarding():
        raise error
    return caught.value.exit_code


def test_misuse_ends_with_2_and_keeps_the_lines_of_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(MisuseError("expected a value [here]\n  a = = 1\n      ^")) == 2
    assert capsys.readouterr().err == "error: expected a value [here]\n  a = = 1\n      ^\n"


def test_another_error_of_ours_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(PeerError("the peer hung up")) == 1
    assert capsys.readouterr() == ("", "error: the peer hung up\n")


def test_an_interrupt_from_the_keyboard_ends_quietly_with_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(KeyboardInterrupt()) == 130
    assert capsys.readouterr() == ("", "")


def test_names_between_colons_are_not_taken_for_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    console.note("session:id:7")
    console.table("t", {"name": "left"}, iter([("a:id:7",)]))
    out, err = capsys.readouterr()
    assert "session:id:7" in err
    assert "a:id:7" in out


def test_a_long_message_is_not_broken_into_lines(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code_of(MisuseError("word " * 100 + "end"))
    assert capsys.readouterr().err.count("\n") == 1


def test_a_reader_that_leaves_early_ends_the_command_quietly() -> None:
    command = [sys.executable, "-c", "from penstock.cli import main; main()", "quotes", "--count", "200000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"date,symbol")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_tables_are_aligned_and_their_cells_are_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    console.table("title", {"name": "left", "value": "right"}, iter([("a[b]", "1"), ("c", "22")]))
    shown = capsys.readouterr().out
    assert "a[b]" in shown
    assert "│     1 │" in shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        ("3-5", "3-5"),
        (2, "2"),
        (1_234_567, "1,234,567"),
        (0.012345, "0.0123"),
        (4.5678, "4.57"),
        (123.4, "123"),
    ],
)
def test_numbers_are_shown_for_people(value: float | str | None, shown: str) -> None:
    assert shown_number(value) == shown


EVIL = "\x1b[31mEVIL\x1b]0;pwn\x07\x9b2J\u202e"
WRITTEN_OUT = "\\x1b[31mEVIL\\x1b]0;pwn\\x07\\x9b2J\\u202e"


def test_what_would_be_a_command_to_a_terminal_is_written_out_wherever_it_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console.table("Hosts", {"host": "left"}, iter([(EVIL,)]))
    console.note(f"{EVIL}\nnext line")
    exit_code_of(PeerError(EVIL))
    shown = capsys.readouterr()
    assert WRITTEN_OUT in shown.out
    assert shown.err == f"{WRITTEN_OUT}\nnext line\nerror: {WRITTEN_OUT}\n"
    assert printable("Zürich → 東京\n") == "Zürich → 東京\n"


def test_json_says_the_same_with_what_cannot_be_printed_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"host": EVIL, "name": "Zürich 🎉\U000e0001"}
    console.json(value)
    shown = capsys.readouterr().out
    assert msgspec.json.decode(shown) == value
    assert all(each.isprintable() for each in shown.splitlines())
    assert "Zürich 🎉" in shown
    assert msgspec.json.decode(printable_json(msgspec.json.encode(value))) == value
