"""The lexer cuts every text into tokens, or says at which character it cannot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.limits import INTEGER_MAX, NAME_CHARS_MAX, SELECTOR_CHARS_MAX
from penstock.model.values import Scalar
from penstock.selectors.ast import Attribute, Literal
from penstock.selectors.errors import SelectorError, SelectorTooLargeError
from penstock.selectors.lexer import END, NAME, NUMBER, STRING, TOO_BIG, Token, describe, small_integer, tokenize


def leaf(text: str) -> Attribute | Literal | None:
    tokens = tokenize(text)
    assert len(tokens) == 2
    return tokens[0][1]


def error_of(text: str) -> SelectorError:
    with pytest.raises(SelectorError) as caught:
        tokenize(text)
    return caught.value


def test_tokens_know_their_kind_leaf_and_position() -> None:
    expected: list[Token] = [
        (NAME, Attribute("a"), 0),
        ("<=", None, 2),
        (NUMBER, Literal(42), 5),
        ("AND", None, 8),
        (NAME, Attribute("b"), 12),
        ("LIKE", None, 14),
        (STRING, Literal("x%"), 19),
        (END, None, 24),
    ]
    assert tokenize("a <= 42 and b Like 'x%' ") == expected


@pytest.mark.parametrize("text", ["", " ", "\t\r\n\f\u00a0"])
def test_blank_text_is_only_an_end(text: str) -> None:
    assert tokenize(text) == [(END, None, len(text))]


def test_operators_need_no_blanks_between_them() -> None:
    kinds = [kind for kind, _, _ in tokenize("<><=>==<>+-*/(),!=")]
    assert kinds == ["<>", "<=", ">=", "=", "<>", "+", "-", "*", "/", "(", ")", ",", "<>", END]


def test_two_minus_signs_are_no_comment() -> None:
    assert [kind for kind, _, _ in tokenize("a--1")] == [NAME, "-", "-", NUMBER, END]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("''", ""),
        ("'it''s'", "it's"),
        ("''''", "'"),
        ("'a\nb\x00c\x07'", "a\nb\x00c\x07"),
        ("'\"'", '"'),
        ("'\\'", "\\"),
        ("'ü😀'", "ü😀"),
        ("42", 42),
        ("42L", 42),
        ("42l", 42),
        ("0042", 42),
        ("0", 0),
        ("0" * 9_000 + "7", 7),
        ("0x1F", 31),
        ("0XfL", 15),
        ("0x1D", 29),
        ("9223372036854775807", INTEGER_MAX),
        ("0x7fffffffffffffff", INTEGER_MAX),
        ("3.5", 3.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("7E3", 7000.0),
        ("57.9e+2", 5790.0),
        ("1.e-2", 0.01),
        ("42D", 42.0),
        ("42f", 42.0),
        ("3.5F", 3.5),
        ("1e-999", 0.0),
        ("TRUE", True),
        ("fAlSe", False),
    ],
)
def test_literals_have_the_value_and_type_written(text: str, value: Scalar) -> None:
    literal = leaf(text)
    assert literal == Literal(value)
    assert isinstance(literal, Literal)
    assert type(literal.value) is type(value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a", "a"),
        ("_", "_"),
        ("$time", "$time"),
        ("a.b.c", "a.b.c"),
        ("a.5", "a.5"),
        ("größe", "größe"),
        ("价格", "价格"),
        ("ıs", "ıs"),
        ("android", "android"),
        ('"odd name"', "odd name"),
        ('"a""b"', 'a"b'),
        ('"AND"', "AND"),
        ('"it\'s"', "it's"),
        ("a" * NAME_CHARS_MAX, "a" * NAME_CHARS_MAX),
    ],
)
def test_names_are_attributes(text: str, name: str) -> None:
    assert leaf(text) == Attribute(name)


def test_the_integer_that_needs_a_minus_sign_is_left_to_the_parser() -> None:
    assert tokenize("9223372036854775808")[0] == (TOO_BIG, None, 0)


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("a = 'it", 4, "expected a closing ' for this string, found the end"),
        ("a = 'it''", 4, "expected a closing ' for this string, found the end"),
        ('a = "it', 4, 'expected a closing " for this name, found the end'),
        ('a = ""', 4, "expected a name between the quotes, found nothing"),
        ("a = 42abc", 4, "expected a number, found '42abc'"),
        ("a = 5AND b", 4, "expected a number, found '5AND'"),
        ("a = 1.5L", 4, "expected a number, found '1.5L'"),
        ("a = 1.2.3", 4, "expected a number, found '1.2.3'"),
        ("a = 0x", 4, "expected a number, found '0x'"),
        ("a = 1e", 4, "expected a number, found '1e'"),
        ("a = .5x", 4, "expected a number, found '.5x'"),
        ("a = 9223372036854775809", 4, "expected an integer of 64 bits, found 9223372036854775809"),
        ("a = 0x8000000000000001", 4, "expected an integer of 64 bits, found 0x8000000000000001"),
        ("a = 1e999", 4, "expected a finite number, found 1e999"),
        ("a = " + "9" * 5_000, 4, f"expected an integer of 64 bits, found {'9' * 40}..."),
        ("a.", 2, "expected the rest of a name after '.', found the end"),
        ("a. = 1", 2, "expected the rest of a name after '.', found '='"),
        ("a..b", 2, "expected the rest of a name after '.', found '.'"),
        ("a = #", 4, "expected a value, attribute or operator, found '#'"),
        ("a = .", 4, "expected a value, attribute or operator, found '.'"),
        ("a = ٣", 4, "expected a value, attribute or operator, found '٣'"),
        ("a = ²", 4, "expected a value or attribute, found '²'"),
        ("a = \x00", 4, "expected a value, attribute or operator, found U+0000"),
        ("a = '\ud800'", 5, "expected a character, found the lone surrogate U+D800"),
    ],
)
def test_what_is_no_token_is_an_error_at_its_character(text: str, position: int, problem: str) -> None:
    error = error_of(text)
    assert (error.position, error.problem) == (position, problem)


def test_a_text_over_the_limit_is_refused() -> None:
    assert tokenize(" " * SELECTOR_CHARS_MAX)
    error = error_of(" " * (SELECTOR_CHARS_MAX + 1))
    assert isinstance(error, SelectorTooLargeError)
    assert error.problem == "selector has 16,385 characters, over the limit of 16,384"


@pytest.mark.parametrize("text", ["a" * (NAME_CHARS_MAX + 1), f'"{"a" * (NAME_CHARS_MAX + 1)}"'])
def test_a_name_that_no_message_can_have_is_refused(text: str) -> None:
    error = error_of(f"b = {text}")
    assert isinstance(error, SelectorTooLargeError)
    assert (error.position, error.problem) == (4, "attribute name has 256 characters, over the limit of 255")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("  <= 1", "'<='"),
        ("abc d", "'abc'"),
        ("'it''s'", "the string 'it''s'"),
        ('"x" ', 'the name "x"'),
        ("  ", "the end"),
        ("'a\nb'", "the string 'a b'"),
    ],
)
def test_a_token_is_described_as_written(text: str, found: str) -> None:
    assert describe(text, 0) == found


def test_an_integer_is_small_up_to_the_opposite_of_the_smallest() -> None:
    assert small_integer("9223372036854775808") == 2**63
    assert small_integer("9223372036854775809") is None
    assert small_integer("1" + "0" * 10_000) is None


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_as_a_string(text: str) -> None:
    quoted = text.replace("'", "''")
    assert tokenize(f"'{quoted}'") == [(STRING, Literal(text), 0), (END, None, len(quoted) + 2)]


@given(st.integers(0, INTEGER_MAX) | st.floats(0, allow_nan=False, allow_infinity=False))
def test_any_number_survives_as_python_writes_it(number: float) -> None:
    assert leaf(repr(number)) == Literal(number)


@pytest.mark.parametrize("char", ["'", '"', ".", "1", "a.", "e1", "''", "0x", "1e", " "])
def test_a_text_of_one_thing_repeated_is_cut_or_refused(char: str) -> None:
    try:
        tokens = tokenize((char * SELECTOR_CHARS_MAX)[:SELECTOR_CHARS_MAX])
    except SelectorError:
        return
    assert tokens[-1] == (END, None, SELECTOR_CHARS_MAX)
