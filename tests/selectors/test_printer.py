"""What is printed is read back as the same thing, with no more quotes and parentheses than that takes."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.model.values import Scalar
from penstock.selectors import Selector, SelectorError, ast, attr
from penstock.selectors.constraint import Constraint, Exists, Null, Range, Values
from penstock.selectors.leaves import leaf_of
from penstock.selectors.lexer import NAME, tokenize
from penstock.selectors.like import LikePattern
from penstock.selectors.parser import parse_sql
from penstock.selectors.printer import KEYWORDS, condition_text, constraint_texts, identifier_text, literal_text
from strategies import conditions, literals, operators, terms, tries

A, B, C = ast.Attribute("a"), ast.Attribute("b"), ast.Attribute("c")
SPELLINGS = sorted(
    spelling for word in KEYWORDS for spelling in (word, word.lower(), word.title(), word[0].lower() + word[1:])
)


def constraint_of(text: str) -> Constraint:
    leaf = leaf_of(parse_sql(text))
    assert isinstance(leaf, tuple)
    return leaf[1]


def with_canonical_patterns(condition: ast.Condition) -> ast.Condition:
    """The same tree with its patterns as they are printed."""
    match condition:
        case ast.Like(attribute, pattern, escape):
            return ast.Like(attribute, *LikePattern.parse(pattern, escape).text())
        case ast.Not(operand):
            return ast.Not(with_canonical_patterns(operand))
        case ast.And(operands):
            return ast.And(tuple(map(with_canonical_patterns, operands)))
        case ast.Or(operands):
            return ast.Or(tuple(map(with_canonical_patterns, operands)))
        case _:
            return condition


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "TRUE"),
        (False, "FALSE"),
        (0, "0"),
        (-5, "-5"),
        (9223372036854775807, "9223372036854775807"),
        (-9223372036854775808, "-9223372036854775808"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (5e-324, "5e-324"),
        ("", "''"),
        ("it's", "'it''s'"),
        ("''", "''''''"),
        ('"', "'\"'"),
        ("a\nb", "'a\nb'"),
    ],
)
def test_a_literal_has_one_spelling(value: Scalar, text: str) -> None:
    assert literal_text(value) == text


@given(
    st.one_of(literals, st.text(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False))
)
def test_a_literal_is_read_back_as_the_same_value_of_the_same_type(value: Scalar) -> None:
    condition = parse_sql(f"a = {literal_text(value)}")
    assert repr(condition) == repr(ast.Comparison("=", A, ast.Literal(value)))


@pytest.mark.parametrize("name", ["a", "_", "$x", "a1", "a.b", "a.b.c", "A_b$9", "android", "inn", "trueish", "in.x"])
def test_a_plain_name_is_not_quoted(name: str) -> None:
    assert identifier_text(name) == name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("odd name", '"odd name"'),
        ("1a", '"1a"'),
        ("a-b", '"a-b"'),
        ("a..b", '"a..b"'),
        (".a", '".a"'),
        ("a.", '"a."'),
        ("a.1", '"a.1"'),
        ("a\n", '"a\n"'),
        ('say "x"', '"say ""x"""'),
        ("in", '"in"'),
        ("And", '"And"'),
        ("TRUE", '"TRUE"'),
        ("é", '"é"'),
        ("[", '"["'),
    ],
)
def test_any_other_name_is_quoted(name: str, text: str) -> None:
    assert identifier_text(name) == text


@given(st.one_of(st.text(min_size=1, max_size=20), st.text('aA1_$."', min_size=1, max_size=6)))
def test_a_name_is_read_back_as_the_same_name(name: str) -> None:
    tokens = tokenize(identifier_text(name))
    assert [kind for kind, _, _ in tokens[:-1]] == [NAME]
    assert tokens[0][1] == ast.Attribute(name)


@pytest.mark.parametrize(
    "text",
    [
        "a + b + c > 0",
        "a + (b + c) > 0",
        "a - (b - c) > 0",
        "a - b - c > 0",
        "(a + b) * c > 0",
        "a + b * c > 0",
        "a * b + c > 0",
        "a * (b / c) > 0",
        "a / b / c > 0",
        "a / (b * c) > 0",
        "a * b / c > 0",
        "-a * b > 0",
        "-(a * b) > 0",
        "--a > 0",
        "a - -b > 0",
        "a - -5 > 0",
        "-(5) > a",
        "-(-5) > a",
        "-('x') > a",
        "(a - 1) * -(b + 2) / 3.5 <> c * (4 - 1)",
        "NOT (a = 1)",
        "NOT (NOT (a = 1))",
        "NOT (a = 1 AND b = 1)",
        "a = 1 AND b = 1 OR c = 1 AND a = 2",
        "(a = 1 OR b = 1) AND (c = 1 OR a = 2)",
        "(a = 1 AND b = 1) AND c = 1",
        "(a = 1 OR b = 1) OR c = 1",
        "TRUE AND NOT (FALSE) OR a IS NULL",
        "a IN (1, -2.5, 'it''s', TRUE)",
        "s LIKE 'a%b_'",
        "s LIKE '100\\%%' ESCAPE '\\'",
        '"in" = "odd name"',
    ],
)
def test_a_text_with_just_the_parentheses_it_needs_is_printed_as_it_was_read(text: str) -> None:
    assert condition_text(parse_sql(text)) == text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("((a + b)) > ((0))", "a + b > 0"),
        ("(a + b) + c > 0", "a + b + c > 0"),
        ("(a * b) + c > 0", "a * b + c > 0"),
        ("(a = 1 AND b = 1) OR c = 1", "a = 1 AND b = 1 OR c = 1"),
        ("a", "a = TRUE"),
        ("not a", "NOT (a = TRUE)"),
        ("a != 0x10", "a <> 16"),
        ("a between 1 and 2", "a >= 1 AND a <= 2"),
        ("s like 'x!%!!' escape '!'", "s LIKE 'x\\%!' ESCAPE '\\'"),
        ("s like 'x\\y'", "s LIKE 'x\\\\y' ESCAPE '\\'"),
        ("s like 'x!!y' escape '!'", "s LIKE 'x!y'"),
        ("s like '%%_'", "s LIKE '_%'"),
        ("s not like 'it''s_'", "NOT (s LIKE 'it''s_')"),
    ],
)
def test_other_spellings_are_printed_in_the_canonical_one(text: str, printed: str) -> None:
    assert condition_text(parse_sql(text)) == printed


@settings(max_examples=tries(1000))
@given(operators, terms, terms)
@example("=", ast.Arithmetic("-", A, ast.Arithmetic("-", B, C)), ast.Negative(ast.Literal(5)))
@example("=", ast.Arithmetic("*", ast.Negative(A), ast.Literal(-0.0)), ast.Negative(ast.Negative(B)))
@example("=", ast.Negative(ast.Literal(-(2**63))), ast.Negative(ast.Literal(value=True)))
def test_arithmetic_is_read_back_as_the_same_tree(
    operator: ast.ComparisonOperator, left: ast.Term, right: ast.Term
) -> None:
    condition = ast.Comparison(operator, left, right)
    assert repr(parse_sql(condition_text(condition))) == repr(condition)


@settings(max_examples=tries(1000))
@given(conditions)
def test_a_condition_is_read_back_as_the_same_tree(condition: ast.Condition) -> None:
    assert repr(parse_sql(condition_text(condition))) == repr(with_canonical_patterns(condition))


def test_signs_nested_as_deep_as_the_parser_allows_are_still_read_back() -> None:
    condition = parse_sql("- " * 60 + "a > b")
    assert parse_sql(condition_text(condition)) == condition


@given(st.text("a%_\\!'", max_size=8), st.text("a%_\\!'", max_size=8))
def test_a_pattern_is_read_back_with_the_same_meaning(literal: str, other: str) -> None:
    escaped = "".join(f"!{char}" if char in "%_!" else char for char in literal)
    condition = parse_sql(condition_text(ast.Like(A, f"{escaped}%_", "!")))
    assert isinstance(condition, ast.Like)
    again = LikePattern.parse(condition.pattern, condition.escape)
    assert again == LikePattern.parse(f"{escaped}%_", "!")
    assert again.matches(literal + "x" + other)
    assert not again.matches(literal)


@pytest.mark.parametrize(
    ("constraint", "texts"),
    [
        (Null(), ["a IS NULL"]),
        (Exists(), ["a IS NOT NULL"]),
        (Values((1,)), ["a = 1"]),
        (Values(((True,),)), ["a = TRUE"]),
        (Values(((False,), 1, "x")), ["a IN (FALSE, 1, 'x')"]),
        (Range(text=True, low=""), ["a LIKE '%'"]),
        (Range(text=True, low="", low_open=True), ["a > ''"]),
        (Range(text=True, low="x"), ["a >= 'x'"]),
        (Range(text=True, low="", high="x"), ["a <= 'x'"]),
        (Range(text=True, low="x", high="y", high_open=True), ["a LIKE 'x%'"]),
        (Range(text=True, low="x%", high="x&", high_open=True), ["a LIKE 'x\\%%' ESCAPE '\\'"]),
        (Range(text=True, low="x", high="y"), ["a >= 'x'", "a <= 'y'"]),
        (Range(text=True, low="x", low_open=True, high="y", high_open=True), ["a > 'x'", "a < 'y'"]),
        (Range(text=False, low=1, low_open=True, high=5, excluded=(2, 3.5)), ["a > 1", "a <= 5", "a <> 2", "a <> 3.5"]),
        (Range(text=False, excluded=(1,)), ["a <> 1"]),
        (Range(text=True, low="\U0010ffff"), ["a LIKE '\U0010ffff%'"]),
    ],
)
def test_a_constraint_is_printed_as_the_fewest_predicates(constraint: Constraint, texts: list[str]) -> None:
    assert constraint_texts("a", constraint) == texts


def test_bounds_that_a_pattern_implies_are_not_printed() -> None:
    pattern = constraint_of("a LIKE 'ab_c'")
    assert isinstance(pattern, Range)
    assert constraint_texts("a", pattern) == ["a LIKE 'ab_c'"]
    assert constraint_texts("a", pattern._replace(low="abb")) == ["a LIKE 'ab_c'", "a >= 'abb'"]
    assert constraint_texts("a", pattern._replace(high="abx")) == ["a LIKE 'ab_c'", "a < 'abx'"]
    unlike = LikePattern.parse("%d")
    assert constraint_texts("a", pattern._replace(unlike=(unlike,))) == ["a LIKE 'ab_c'", "a NOT LIKE '%d'"]


def test_the_name_of_a_constraint_is_quoted_where_it_must_be() -> None:
    assert constraint_texts("in", Null()) == ['"in" IS NULL']
    assert constraint_texts("odd name", Values((1, 2))) == ['"odd name" IN (1, 2)']


# --- reserved words


def test_the_words_are_those_of_jms() -> None:
    assert sorted(KEYWORDS) == ["AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"]


@pytest.mark.parametrize("word", SPELLINGS)
def test_a_keyword_in_any_case_is_quoted_as_a_name_and_comes_back(word: str) -> None:
    assert identifier_text(word) == f'"{word}"'
    selector = attr(word) == 5
    assert str(selector) == f'"{word}" = 5'
    assert Selector.parse(str(selector)) == selector
    assert Selector.parse(str(selector)).matches({word: 5})


@pytest.mark.parametrize("word", SPELLINGS)
def test_a_keyword_without_quotes_is_no_name(word: str) -> None:
    assert tokenize(word)[0][0] == word.upper()
    if word.upper() in {"TRUE", "FALSE"}:
        assert not Selector.parse(f"{word} = 5").matches({word: 5})
    else:
        with pytest.raises(SelectorError, match="expected"):
            Selector.parse(f"{word} = 5")


@pytest.mark.parametrize("word", SPELLINGS)
def test_a_name_that_merely_contains_a_keyword_needs_no_quotes(word: str) -> None:
    for name in (f"{word}x", f"x{word}", f"{word}_", f"x.{word}", f"${word}"):
        assert identifier_text(name) == name
        assert tokenize(name)[0][0] == NAME
        assert Selector.parse(f"{name} = 5") == (attr(name) == 5)


@pytest.mark.parametrize("word", ["ıN", "ıs", "lıke", "ﬁ"])
def test_letters_whose_capitals_look_like_a_keyword_make_none(word: str) -> None:
    assert Selector.parse(f"{word} = 5").matches({word: 5})
    assert Selector.parse(str(attr(word) == 5)).matches({word: 5})
