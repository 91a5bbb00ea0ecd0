"""The SQL parser makes the right tree of a selector, or points at what is wrong with it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.model.limits import INTEGER_MAX, INTEGER_MIN, SELECTOR_CHARS_MAX, SELECTOR_DEPTH_MAX, SELECTOR_NODES_MAX
from penstock.selectors.ast import (
    And,
    Arithmetic,
    Attribute,
    Comparison,
    Condition,
    Constant,
    InList,
    IsNull,
    Like,
    Literal,
    Negative,
    Not,
    Or,
    Term,
)
from penstock.selectors.errors import SelectorError, SelectorTooLargeError
from penstock.selectors.parser import parse_sql

A, B, C = Attribute("a"), Attribute("b"), Attribute("c")
ONE, TWO, THREE = Literal(1), Literal(2), Literal(3)
YES, NO = Constant(value=True), Constant(value=False)


def is_true(attribute: Attribute) -> Comparison:
    return Comparison("=", attribute, Literal(value=True))


def between(term: Term, low: Term, high: Term) -> And:
    return And((Comparison(">=", term, low), Comparison("<=", term, high)))


def error_of(text: str) -> SelectorError:
    with pytest.raises(SelectorError) as caught:
        parse_sql(text)
    return caught.value


VALID: list[tuple[str, Condition]] = [
    ("", YES),
    (" \n\t", YES),
    ("TRUE", YES),
    ("(false)", NO),
    ("NOT TRUE", Not(YES)),
    ("a", is_true(A)),
    ("((a))", is_true(A)),
    ("NOT a", Not(is_true(A))),
    ("a AND NOT b", And((is_true(A), Not(is_true(B))))),
    ("a = 1", Comparison("=", A, ONE)),
    ("((a)) = 1", Comparison("=", A, ONE)),
    ("(a > 1)", Comparison(">", A, ONE)),
    ("a <> 1", Comparison("<>", A, ONE)),
    ("a != 1", Comparison("<>", A, ONE)),
    ("a<=1", Comparison("<=", A, ONE)),
    ("1>=a", Comparison(">=", ONE, A)),
    ("a < b", Comparison("<", A, B)),
    ("a = TRUE", is_true(A)),
    ("'x' = 'y'", Comparison("=", Literal("x"), Literal("y"))),
    ('"odd name" = 1', Comparison("=", Attribute("odd name"), ONE)),
    ("a = 1 AND b = 2 AND c = 3", And((Comparison("=", A, ONE), Comparison("=", B, TWO), Comparison("=", C, THREE)))),
    ("a OR b OR c", Or((is_true(A), is_true(B), is_true(C)))),
    ("(a AND b) AND c", And((And((is_true(A), is_true(B))), is_true(C)))),
    ("a AND (b AND c)", And((is_true(A), And((is_true(B), is_true(C)))))),
    ("a OR b AND c", Or((is_true(A), And((is_true(B), is_true(C)))))),
    ("a AND b OR c", Or((And((is_true(A), is_true(B))), is_true(C)))),
    ("(a OR b) AND c", And((Or((is_true(A), is_true(B))), is_true(C)))),
    ("NOT a = 1 AND b", And((Not(Comparison("=", A, ONE)), is_true(B)))),
    ("NOT NOT a", Not(Not(is_true(A)))),
    ("NOT (a AND b)", Not(And((is_true(A), is_true(B))))),
    ("a BETWEEN 1 AND 2", between(A, ONE, TWO)),
    ("a NOT BETWEEN 1 AND 2", Not(between(A, ONE, TWO))),
    ("a + 1 BETWEEN b AND c * 2", between(Arithmetic("+", A, ONE), B, Arithmetic("*", C, TWO))),
    ("a BETWEEN 1 AND 2 AND b", And((between(A, ONE, TWO), is_true(B)))),
    ("b AND a BETWEEN 1 AND 2", And((is_true(B), between(A, ONE, TWO)))),
    ("a IN ('x')", InList(A, ("x",))),
    ("(a) IN ('x', 1, -2, +3.5, TRUE, false)", InList(A, ("x", 1, -2, 3.5, True, False))),
    ("a NOT IN ('x', 'y')", Not(InList(A, ("x", "y")))),
    ("a IN (-9223372036854775808)", InList(A, (INTEGER_MIN,))),
    ("a LIKE 'x%'", Like(A, "x%")),
    ("a NOT LIKE '_'", Not(Like(A, "_"))),
    (r"a LIKE '\_%' ESCAPE '\'", Like(A, r"\_%", "\\")),
    ("a LIKE '''%' ESCAPE ''''", Like(A, "'%", "'")),
    ("a IS NULL", IsNull(A)),
    ("(a) is not null", Not(IsNull(A))),
    ("NOT a IS NOT NULL", Not(Not(IsNull(A)))),
    ("a + 1 = 2", Comparison("=", Arithmetic("+", A, ONE), TWO)),
    ("(a + 1) * 2 > 3", Comparison(">", Arithmetic("*", Arithmetic("+", A, ONE), TWO), THREE)),
    ("a + 1 * 2 > 3", Comparison(">", Arithmetic("+", A, Arithmetic("*", ONE, TWO)), THREE)),
    ("a - b - c = 1", Comparison("=", Arithmetic("-", Arithmetic("-", A, B), C), ONE)),
    ("a / (b / c) = 1", Comparison("=", Arithmetic("/", A, Arithmetic("/", B, C)), ONE)),
    ("a--1 = 2", Comparison("=", Arithmetic("-", A, Literal(-1)), TWO)),
    ("a -1 = 2", Comparison("=", Arithmetic("-", A, ONE), TWO)),
    ("-a * b = 1", Comparison("=", Arithmetic("*", Negative(A), B), ONE)),
    ("a = -1", Comparison("=", A, Literal(-1))),
    ("a = - 57.9E2", Comparison("=", A, Literal(-5790.0))),
    ("a = -(1)", Comparison("=", A, Negative(ONE))),
    ("a = - -1", Comparison("=", A, Negative(Literal(-1)))),
    ("a = + +1", Comparison("=", A, ONE)),
    ("+a = +(b + 1)", Comparison("=", Negative(Negative(A)), Arithmetic("+", B, ONE))),
    ("a = +-b", Comparison("=", A, Negative(B))),
    ("a = 9223372036854775807", Comparison("=", A, Literal(INTEGER_MAX))),
    ("a = -9223372036854775808", Comparison("=", A, Literal(INTEGER_MIN))),
    ("a--9223372036854775808=1", Comparison("=", Arithmetic("-", A, Literal(INTEGER_MIN)), ONE)),
    ("a = '\x00\n'", Comparison("=", A, Literal("\x00\n"))),
]

INVALID: list[tuple[str, int, str]] = [
    ("a =", 3, "expected a value or attribute, found the end"),
    ("a = )", 4, "expected a value or attribute, found ')'"),
    ("a == 1", 3, "expected a value or attribute, found '='"),
    ("= 1", 0, "expected a value or attribute, found '='"),
    ("()", 1, "expected a value or attribute, found ')'"),
    ("a = NOT b", 4, "expected a value or attribute, found 'NOT'"),
    ("1 + NOT b = 2", 4, "expected a value or attribute, found 'NOT'"),
    ("a AND", 5, "expected a value or attribute, found the end"),
    ("a AND OR b", 6, "expected a value or attribute, found 'OR'"),
    ("NOT", 3, "expected a value or attribute, found the end"),
    ("a = NULL", 4, "expected a value or attribute, found NULL: use IS NULL"),
    ("NULL <> a", 0, "expected a value or attribute, found NULL: use IS NULL"),
    ("a b", 2, "expected an operator or the end, found 'b'"),
    ("a = 1)", 5, "expected an operator or the end, found ')'"),
    ("a 'x'", 2, "expected an operator or the end, found the string 'x'"),
    ("(a = 1", 6, "expected an operator or ')', found the end"),
    ("(a b)", 3, "expected an operator or ')', found 'b'"),
    ("a > 1 > 2", 6, "expected AND or OR, found '>'"),
    ("(a > 1) = TRUE", 8, "expected AND or OR, found '='"),
    ("(a > 1) + 1 = 2", 8, "expected AND or OR, found '+'"),
    ("(a > 1) IS NULL", 8, "expected AND or OR, found 'IS'"),
    ("1 < (a > 2)", 4, "expected a value or attribute, found a condition"),
    ("1 + (a > 2) > 3", 4, "expected a value or attribute, found a condition"),
    ("-(a > 2)", 1, "expected a value or attribute, found a condition"),
    ("a BETWEEN 1 AND (b > 2)", 16, "expected a value or attribute, found a condition"),
    ("'x'", 0, "expected a condition, found a value"),
    ("a + 1", 0, "expected a condition, found a value"),
    ("b AND 5", 6, "expected a condition, found a value"),
    ("5 OR b", 0, "expected a condition, found a value"),
    ("NOT 5", 4, "expected a condition, found a value"),
    ("b AND (a + 1)", 6, "expected a condition, found a value"),
    ("-a", 0, "expected a condition, found a value"),
    ("a BETWEEN 1", 11, "expected AND, found the end"),
    ("a BETWEEN 1 OR 2", 12, "expected AND, found 'OR'"),
    ("a BETWEEN b > 1 AND 2", 12, "expected AND, found '>'"),
    ("a NOT = 1", 6, "expected BETWEEN, IN or LIKE, found '='"),
    ("a IN 1", 5, "expected '(', found '1'"),
    ("a IN ()", 6, "expected a literal, found ')'"),
    ("a IN (1,)", 8, "expected a literal, found ')'"),
    ("a IN (b)", 6, "expected a literal, found 'b'"),
    ("a IN (NULL)", 6, "expected a literal, found 'NULL'"),
    ("a IN (1 2)", 8, "expected ',' or ')', found '2'"),
    ("a IN (-'x')", 7, "expected a number, found the string 'x'"),
    ("a IN (1", 7, "expected ',' or ')', found the end"),
    ("a IN (9223372036854775808)", 6, "expected an integer of 64 bits, found 9223372036854775808"),
    ("b = 1 AND 5 IN (1)", 10, "expected an attribute to the left of IN, found a value"),
    ("a + 1 IN (1)", 0, "expected an attribute to the left of IN, found a value"),
    ("'x' LIKE 'x'", 0, "expected an attribute to the left of LIKE, found a value"),
    ("5 IS NULL", 0, "expected an attribute to the left of IS, found a value"),
    ("a LIKE b", 7, "expected a pattern in quotes, found 'b'"),
    ("a LIKE 5", 7, "expected a pattern in quotes, found '5'"),
    ("a LIKE 'x' ESCAPE", 17, "expected one character in quotes, found the end"),
    ("a LIKE 'x' ESCAPE ''", 18, "expected one character in quotes, found the string ''"),
    ("a LIKE 'x' ESCAPE '!!'", 18, "expected one character in quotes, found the string '!!'"),
    ("a LIKE '!x' ESCAPE '!'", 7, "expected %, _ or ! after the escape character, found 'x'"),
    ("a LIKE 'x!' ESCAPE '!'", 7, "expected %, _ or ! after the escape character, found the end of the pattern"),
    ("a IS", 4, "expected NULL or NOT, found the end"),
    ("a IS NOT 5", 9, "expected NULL, found '5'"),
    ("a IS TRUE", 5, "expected NULL or NOT, found 'TRUE'"),
    ("a = 9223372036854775808", 4, "expected an integer of 64 bits, found 9223372036854775808"),
    ("a = -(9223372036854775808)", 6, "expected an integer of 64 bits, found 9223372036854775808"),
    ("a - 9223372036854775808 = 1", 4, "expected an integer of 64 bits, found 9223372036854775808"),
    ("a = -9223372036854775809", 5, "expected an integer of 64 bits, found 9223372036854775809"),
    ("a = 1, b = 2", 5, "expected an operator or the end, found ','"),
    ("a ESCAPE 'x'", 2, "expected an operator or the end, found 'ESCAPE'"),
]


@pytest.mark.parametrize(("text", "expected"), VALID)
def test_a_selector_becomes_its_tree(text: str, expected: Condition) -> None:
    assert repr(parse_sql(text)) == repr(expected)  # by text, since 1 equals TRUE to Python


@pytest.mark.parametrize(("text", "position", "problem"), INVALID)
def test_an_error_points_at_the_character_that_is_wrong(text: str, position: int, problem: str) -> None:
    error = error_of(text)
    assert (error.position, error.problem) == (position, problem)


def test_nothing_changes_between_lower_and_upper_case_keywords() -> None:
    text = "NOT a BETWEEN 1 AND 2 OR b LIKE 'X' ESCAPE '!' AND c IS NOT NULL OR a IN (TRUE)"
    assert parse_sql(text) == parse_sql(text.lower().replace("'x'", "'X'"))


AT_THE_LIMIT = [
    ("(" * SELECTOR_DEPTH_MAX + "a = 1" + ")" * SELECTOR_DEPTH_MAX, "(" * 101 + "a = 1" + ")" * 101),
    ("NOT " * 99 + "a = 1", "NOT " * 100 + "a = 1"),
    ("NOT " * 99 + "a", "NOT " * 100 + "a"),
    ("- " * 99 + "a = 1", "- " * 100 + "a = 1"),
    ("a" + "+a" * 99 + "= 1", "a" + "+a" * 100 + "= 1"),
    ("a" + "*a" * 98 + " BETWEEN 1 AND 2", "a" + "*a" * 99 + " BETWEEN 1 AND 2"),
    ("a" + "*a" * 97 + " NOT BETWEEN 1 AND 2", "a" + "*a" * 98 + " NOT BETWEEN 1 AND 2"),
    ("NOT " * 99 + "a IN (1)", "NOT " * 99 + "a NOT IN (1)"),
    ("(a OR b AND " * 49 + "a" + ")" * 49, "(a OR b AND " * 50 + "a" + ")" * 50),
]


@pytest.mark.parametrize(("allowed", "refused"), AT_THE_LIMIT)
def test_nesting_is_allowed_up_to_the_limit(allowed: str, refused: str) -> None:
    assert hash(parse_sql(allowed)) is not None
    error = error_of(refused)
    assert isinstance(error, SelectorTooLargeError)
    assert error.problem == "selector is nested deeper than 100"


def test_nesting_does_not_count_where_it_is_closed_again() -> None:
    assert isinstance(parse_sql(" AND ".join(["NOT (-(-a) = 1)"] * 500)), And)


def test_long_chains_of_and_are_flat() -> None:
    condition = parse_sql(" AND ".join(["a"] * 2_000))
    assert isinstance(condition, And)
    assert len(condition.operands) == 2_000


def test_a_tree_with_too_many_nodes_is_refused() -> None:
    # Signs make two nodes of one character, and BETWEEN doubles what it tests: the way to the most nodes.
    product = "*".join(["(+a" + "++a" * 50 + ")"] * 45)
    nodes = 45 * (51 * 3 + 50) + 44
    assert nodes < SELECTOR_NODES_MAX < 2 * nodes
    assert isinstance(parse_sql(f"{product} = 1"), Comparison)
    error = error_of(f"{product} BETWEEN 1 AND 2")
    assert isinstance(error, SelectorTooLargeError)
    assert error.problem == f"selector has over {SELECTOR_NODES_MAX:,} literals, attributes and operators"
    assert error.position == len(product) + 1


SOUP = [
    "a",
    "b.c",
    '"q"',
    "1",
    "2.5",
    "'x'",
    "TRUE",
    "NULL",
    "9223372036854775808",
    "AND",
    "OR",
    "NOT",
    "BETWEEN",
    "IN",
    "LIKE",
    "ESCAPE",
    "IS",
    "'!'",
    "=",
    "<>",
    "<",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "(",
    ")",
    ",",
    "(",
    ")",
]


def is_parsed_or_refused(text: str) -> bool:
    """Whether the text is a selector, or no selector for a reason within it; any other error is not caught."""
    try:
        hash(parse_sql(text))
    except SelectorError as error:
        return 0 <= error.position <= len(text) and error.text == text
    return True


@given(st.text() | st.text("ab19.'\"%_()+-*/<>=! ,$xXeELdD\n\x00٣²ı"))
@example("\ud800")
@example("a = '\udfff'")
def test_any_text_is_parsed_or_refused(text: str) -> None:
    assert is_parsed_or_refused(text)


@given(st.lists(st.sampled_from(SOUP), max_size=40).map(" ".join))
def test_any_row_of_tokens_is_parsed_or_refused(text: str) -> None:
    assert is_parsed_or_refused(text)


@pytest.mark.parametrize(
    "unit", ["(", "NOT ", "- ", "+", "a+", "a*", "a AND ", "a OR NOT ", "(a+", "NOT (", "-(", "a BETWEEN a+", "((a)"]
)
def test_no_repetition_exhausts_the_stack(unit: str) -> None:
    for text in (unit * (SELECTOR_CHARS_MAX // len(unit) - 1), unit * 100, unit * 101):
        assert is_parsed_or_refused(text + "a")


def test_a_selector_searches_for_a_limited_number_of_different_patterns() -> None:
    searches = [f"a LIKE '%{number}%'" for number in range(65)]
    parse_sql(" OR ".join(searches[:64] * 2))
    parse_sql(" OR ".join(f"a LIKE '{number}%'" for number in range(500)))
    with pytest.raises(SelectorTooLargeError, match="selector searches for more than 64 LIKE patterns"):
        parse_sql(" OR ".join(searches))


def test_a_pattern_with_too_much_around_its_gaps_is_refused_where_it_stands() -> None:
    with pytest.raises(SelectorError, match="expected at most 64 characters around the _ between two %") as caught:
        parse_sql("b = 1 AND a LIKE '%" + "x_" * 65 + "x%'")
    assert caught.value.position == 17
