"""The list notation of PADRES means what PADRES means by it."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.limits import INTEGER_MAX, INTEGER_MIN, SELECTOR_CHARS_MAX
from penstock.model.values import Scalar
from penstock.selectors.ast import (
    And,
    Attribute,
    Comparison,
    ComparisonOperator,
    Condition,
    Constant,
    IsNull,
    Like,
    Literal,
    Not,
)
from penstock.selectors.errors import SelectorError, SelectorTooLargeError
from penstock.selectors.like import LikePattern
from penstock.selectors.padres import parse_padres, parse_padres_publication

A = Attribute("a")


def test_a_subscription_is_the_conjunction_of_its_predicates() -> None:
    assert parse_padres("[class,=,'STOCK'],[volume,>,15]") == And(
        (Comparison("=", Attribute("class"), Literal("STOCK")), Comparison(">", Attribute("volume"), Literal(15)))
    )


def test_blank_text_selects_everything_and_publishes_nothing() -> None:
    assert parse_padres(" ") == Constant(value=True)
    assert parse_padres_publication(" ") == {}


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("=", "="),
        ("eq", "="),
        ("EQ", "="),
        ("<>", "<>"),
        ("neq", "<>"),
        ("<", "<"),
        ("<=", "<="),
        (">", ">"),
        (">=", ">="),
        ("str-lt", "<"),
        ("str-le", "<="),
        ("str-gt", ">"),
        ("str-ge", ">="),
    ],
)
def test_operators_that_compare(operator: str, expected: ComparisonOperator) -> None:
    assert parse_padres(f"[a,{operator},'x']") == Comparison(expected, A, Literal("x"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a,isPresent]", Not(IsNull(A))),
        ("[a,isPresent,any]", Not(IsNull(A))),
        ("[a,ISPRESENT,5]", Not(IsNull(A))),
        ("[a,str-prefix,'x']", Like(A, "x%")),
        ("[a,str-postfix,'x']", Like(A, "%x")),
        ("[a,str-suffix,'x']", Like(A, "%x")),
        ("[a,str-contains,'x']", Like(A, "%x%")),
        ("[a,str-contains,'']", Like(A, "%")),
        ("[a,str-prefix,'5%']", Like(A, r"5\%%", "\\")),
        ("[a,str-suffix,'_x']", Like(A, r"%\_x", "\\")),
        ("[a,str-prefix,5]", Like(A, "5%")),
        ("[a,str-gt,5]", Comparison(">", A, Literal("5"))),
        (" [ a , = , 5 ] ", Comparison("=", A, Literal(5))),
        ("['odd name',=,5]", Comparison("=", Attribute("odd name"), Literal(5))),
        ("[user-id,=,5]", Comparison("=", Attribute("user-id"), Literal(5))),
    ],
)
def test_a_single_predicate_stands_alone(text: str, expected: Condition) -> None:
    assert parse_padres(text) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        (r"'a\\'", "a\\"),
        (r"'a\nb'", r"a\nb"),
        ("'say \"\"'", 'say ""'),
        ('"it\'s"', "it's"),
        ('"a""b"', 'a"b'),
        (r'"a\"b"', 'a"b'),
        ("'[,]'", "[,]"),
        ("''", ""),
        ("'5'", "5"),
        ("5", 5),
        ("+5", 5),
        ("-5", -5),
        ("9223372036854775807", INTEGER_MAX),
        ("-9223372036854775808", INTEGER_MIN),
        ("5.", 5.0),
        ("-.5e1", -5.0),
        ("true", True),
        ("FALSE", False),
        ("STOCK", "STOCK"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("1_000", "1_000"),
        ("2006-01-02", "2006-01-02"),
        ("AND", "AND"),
    ],
)
def test_values_have_the_type_they_look_like(text: str, value: Scalar) -> None:
    attributes = parse_padres_publication(f"[a,{text}]")
    assert attributes == {"a": value}
    assert type(attributes["a"]) is type(value)


def test_a_publication_keeps_the_order_of_its_attributes() -> None:
    attributes = parse_padres_publication("[class,'STOCK'],[volume,500],[ date , 5-Sep-96 ]")
    assert list(attributes.items()) == [("class", "STOCK"), ("volume", 500), ("date", "5-Sep-96")]


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("a = 1", 0, "expected '[', found 'a'"),
        ("[", 1, "expected the name of an attribute, found the end"),
        ("[]", 1, "expected the name of an attribute, found ']'"),
        ("[5,=,1]", 1, "expected the name of an attribute, found '5'"),
        ("['',=,1]", 1, "expected a name between the quotes, found nothing"),
        ("[a]", 2, "expected ',', found ']'"),
        ("[a,~,1]", 3, "expected an operator, found '~'"),
        ("[a,'=',1]", 3, "expected an operator, found the text '='"),
        ("[a,=]", 4, "expected ',', found ']'"),
        ("[a,=,]", 5, "expected a value, found ']'"),
        ("[a,str-gt,]", 10, "expected a value, found ']'"),
        ("[a,=,1", 6, "expected ']', found the end"),
        ("[a,=,New York]", 9, "expected ']', found 'York'"),
        ("[a,=,1] [b,=,2]", 8, "expected ',' or the end, found '['"),
        ("[a,=,1],", 8, "expected '[', found the end"),
        ("[a,isPresent,]", 13, "expected a value, found ']'"),
        ("[a,=,'x]", 5, "expected a closing ' for this text, found the end"),
        (r"[a,=,'x\']", 5, "expected a closing ' for this text, found the end"),
        ("[a,=,9223372036854775808]", 5, "expected an integer of 64 bits, found 9223372036854775808"),
        ("[a,=,-9223372036854775809]", 5, "expected an integer of 64 bits, found -9223372036854775809"),
        ("[a,=,1e999]", 5, "expected a finite number, found 1e999"),
        ("[a,=,\ud800]", 5, "expected a character, found the lone surrogate U+D800"),
    ],
)
def test_errors_point_at_the_character_that_is_wrong(text: str, position: int, problem: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_padres(text)
    assert (caught.value.position, caught.value.problem) == (position, problem)


def test_an_attribute_can_be_published_only_once() -> None:
    with pytest.raises(SelectorError) as caught:
        parse_padres_publication("[a,1],[b,2],['a',3]")
    assert (caught.value.position, caught.value.problem) == (13, "expected each attribute once, found 'a' again")


def test_the_limit_on_characters_limits_the_predicates_too() -> None:
    predicate = "[a,=,1]"
    condition = parse_padres(",".join([predicate] * ((SELECTOR_CHARS_MAX + 1) // (len(predicate) + 1))))
    assert isinstance(condition, And)
    assert len(condition.operands) == 2_048
    with pytest.raises(SelectorTooLargeError):
        parse_padres(predicate + " " * SELECTOR_CHARS_MAX)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(max_size=5))
def test_the_text_of_a_pattern_stands_for_itself(text: str, more: str) -> None:
    quoted = text.replace("\\", "\\\\").replace("'", "''")
    condition = parse_padres(f"[a,str-contains,'{quoted}']")
    assert isinstance(condition, Like)
    assert LikePattern.parse(condition.pattern, condition.escape).matches(more + text + more)


@given(
    st.text()
    | st.lists(st.sampled_from(["[", "]", ",", "a", "=", "'x'", "'", '"', "\\", "5", " ", "isPresent"])).map("".join)
)
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for parse in (parse_padres, parse_padres_publication):
        with contextlib.suppress(SelectorError):
            parse(text)
