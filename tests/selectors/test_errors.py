"""Errors of selectors point at the character that is wrong."""

from __future__ import annotations

import pytest

from penstock.model.errors import MisuseError
from penstock.selectors.errors import SelectorError, SelectorTooLargeError


def test_an_error_knows_its_problem_text_and_position() -> None:
    error = SelectorError("expected a value, found the end", "a =", 3)
    assert (error.problem, error.text, error.position) == ("expected a value, found the end", "a =", 3)


def test_the_message_counts_characters_from_one_and_draws_a_caret() -> None:
    error = SelectorError("expected a value, found ')'", "a = )", 4)
    assert str(error) == "expected a value, found ')' at character 5\n  a = )\n      ^"


def test_a_long_text_is_cut_around_the_position() -> None:
    text = "a" * 100 + "#" + "b" * 100
    excerpt, caret = str(SelectorError("no", text, 100)).splitlines()[1:]
    assert excerpt == "  " + "a" * 30 + "#" + "b" * 29
    assert excerpt[caret.index("^")] == "#"


def test_characters_that_cannot_be_shown_become_blanks() -> None:
    text = "a\n\x00\ud800b"
    assert str(SelectorError("no", text, 4)).splitlines()[1:] == ["  a   b", "      ^"]


@pytest.mark.parametrize("kind", [SelectorError, SelectorTooLargeError])
def test_errors_of_selectors_are_misuse_by_the_caller(kind: type[SelectorError]) -> None:
    assert issubclass(kind, SelectorError)
    assert issubclass(kind, MisuseError)
