"""Patterns match what SQL says, whatever they look like, and never take for ever."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.selectors.like import LikePattern, Wildcard

ANY, ONE = Wildcard.ANY, Wildcard.ONE

patterns = st.text("ab%_", max_size=12)
texts = st.text("ab\n", max_size=14)


def oracle(pattern: str, text: str) -> bool:
    """Whether the text matches, by a table of which beginnings match which beginnings."""
    reachable = [True] + [False] * len(text)
    for symbol in pattern:
        following = [symbol == "%" and reachable[0]]
        for index, char in enumerate(text):
            if symbol == "%":
                following.append(reachable[index + 1] or following[index])
            else:
                following.append(reachable[index] and symbol in ("_", char))
        reachable = following
    return reachable[-1]


@given(patterns, texts)
@example("a%_", "a\n")
@example("%ab%ab", "ab")
@example("%a_b%", "aabb")
def test_matching_agrees_with_dynamic_programming(pattern: str, text: str) -> None:
    assert LikePattern.parse(pattern).matches(text) == oracle(pattern, text)


@given(st.lists(st.sampled_from(["a", "b", "ab", "%", "_", "a_b", "%%"]), max_size=8).map("".join), texts)
def test_matching_agrees_on_patterns_with_longer_literals(pattern: str, text: str) -> None:
    assert LikePattern.parse(pattern).matches(text) == oracle(pattern, text)


@given(st.text("ab_", min_size=18, max_size=60), texts, st.text("ab", max_size=60))
def test_matching_agrees_on_patterns_with_many_gaps(gaps: str, before: str, filling: str) -> None:
    chars = iter(filling)
    text = before + "".join(next(chars, "c") if symbol == "_" else symbol for symbol in gaps) + before
    for pattern in (f"%{gaps}%", f"%b_{gaps}%", f"a%{gaps}a%"):
        assert LikePattern.parse(pattern).matches(text) == oracle(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "escape", "matching", "other"),
    [
        ("12%3", None, ["123", "12993"], ["1234"]),
        ("l_se", None, ["lose", "l\nse", "l😀se"], ["loose", "lse"]),
        (r"\_%", "\\", ["_foo", "_"], ["bar", "\\_"]),
        ("%%", "%", ["%"], ["%%", ""]),
        ("a!!b", "!", ["a!b"], ["a!!b"]),
        ("", None, [""], ["a"]),
        ("%", None, ["", "a"], []),
        ("abc", None, ["abc"], ["ABC", "abcd", "ab"]),
        (r"a\b", None, [r"a\b"], ["ab"]),
    ],
)
def test_patterns_match_as_in_the_manual(
    pattern: str, escape: str | None, matching: list[str], other: list[str]
) -> None:
    parsed = LikePattern.parse(pattern, escape)
    assert [text for text in matching + other if parsed.matches(text)] == matching


@pytest.mark.parametrize(
    ("pattern", "escape", "problem"),
    [
        ("a!", "!", "expected %, _ or ! after the escape character, found the end of the pattern"),
        ("!a", "!", "expected %, _ or ! after the escape character, found 'a'"),
        ("a", "", "expected one escape character, found 0"),
        ("a", "!!", "expected one escape character, found 2"),
    ],
)
def test_an_escape_that_escapes_nothing_is_refused(pattern: str, escape: str, problem: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        LikePattern.parse(pattern, escape)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("pattern", "tokens"),
    [
        ("", ()),
        ("ab", ("ab",)),
        ("a%%b", ("a", ANY, "b")),
        ("a%_%b", ("a", ONE, ANY, "b")),
        ("%_a_", (ONE, ANY, "a", ONE)),
    ],
)
def test_wildcards_in_a_row_have_one_order(pattern: str, tokens: tuple[str | Wildcard, ...]) -> None:
    assert LikePattern.parse(pattern).tokens == tokens


def test_patterns_with_one_meaning_are_equal_and_hash_alike() -> None:
    first, second = LikePattern.parse("a%_%!%", "!"), LikePattern.parse("a_%%#%", "#")
    assert first == second
    assert hash(first) == hash(second)
    assert first != LikePattern.parse("a_%%%")


@pytest.mark.parametrize(
    ("pattern", "literal", "prefix", "is_prefix"),
    [
        ("", "", "", False),
        ("abc", "abc", "abc", False),
        ("abc%", None, "abc", True),
        ("abc%%", None, "abc", True),
        ("abc%_", None, "abc", False),
        ("abc_", None, "abc", False),
        ("a%b%", None, "a", False),
        ("%", None, "", True),
        ("%a", None, "", False),
        ("_", None, "", False),
    ],
)
def test_literals_and_prefixes_are_recognised(
    pattern: str, literal: str | None, prefix: str, *, is_prefix: bool
) -> None:
    parsed = LikePattern.parse(pattern)
    assert (parsed.literal, parsed.prefix, parsed.is_prefix) == (literal, prefix, is_prefix)


def test_a_pattern_can_be_made_of_a_prefix() -> None:
    assert LikePattern.of_prefix("50%") == LikePattern.parse("50!%%", "!")
    assert LikePattern.of_prefix("") == LikePattern.parse("%")


@pytest.mark.parametrize(
    ("pattern", "escape", "text"),
    [
        ("a%%b", None, ("a%b", None)),
        ("a!%", "!", (r"a\%", "\\")),
        (r"!_\%", "!", (r"\_\\%", "\\")),
        (r"a\b", None, (r"a\\b", "\\")),
    ],
)
def test_the_canonical_text_escapes_with_a_backslash_if_need_be(
    pattern: str, escape: str | None, text: tuple[str, str | None]
) -> None:
    assert LikePattern.parse(pattern, escape).text() == text


@given(st.text("ab%_\\!", max_size=10), st.sampled_from([None, "!", "\\", "%"]))
def test_the_canonical_text_means_the_same(pattern: str, escape: str | None) -> None:
    try:
        parsed = LikePattern.parse(pattern, escape)
    except ValueError:
        assert escape is not None
        return
    assert LikePattern.parse(*parsed.text()) == parsed


@pytest.mark.parametrize("tail", ["b", "b%", "_b%", "b_%", "a_b%a", "a_" * 4_000 + "b%"])
def test_a_pattern_made_to_be_slow_is_not(tail: str) -> None:
    assert not LikePattern.parse("%a" * 200 + "%" + tail).matches("a" * 50_000)


@given(
    st.text("aä€😀_", min_size=3, max_size=12).filter(lambda gaps: gaps.strip("_")),
    st.text("aä€😀", max_size=20),
    st.integers(0, 3),
)
def test_a_segment_tried_at_all_places_at_once_is_found_where_it_first_fits(
    gaps: str, filling: str, repeats: int
) -> None:
    text = "aä€" * 20 + filling * repeats + gaps.replace("_", "x") + filling
    for pattern in (f"%{gaps}%", f"%{gaps}%a", f"%{gaps}%{gaps}%", f"a%{gaps}x_%"):
        assert LikePattern.parse(pattern).matches(text) == oracle(pattern, text)


@pytest.mark.parametrize("text", ["a" * 100 + "\ud800b", "\0" * 60 + "a\0b", "a" * 200])
def test_texts_of_odd_characters_are_searched_like_others(text: str) -> None:
    for pattern in ("%a_a_\ud800%", "%\0_\0_a%", "%a_b_%", "%a__b%", "%a_a_a_a%", "%a_€%"):
        assert LikePattern.parse(pattern).matches(text) == oracle(pattern, text)


def test_a_segment_with_gaps_must_be_short_only_where_it_is_searched_for() -> None:
    many = "a_" * 65 + "a"
    for pattern in (many, many + "%", "%" + many, "%" + "a" * 500 + "%", "%" + "a_" * 63 + "a%"):
        LikePattern.parse(pattern).check_cost()
    with pytest.raises(ValueError, match="expected at most 64 characters around the _ between two %, found 66"):
        LikePattern.parse(f"%{many}%").check_cost()


@pytest.mark.parametrize(("pattern", "is_searched_for"), [("a%", False), ("%a", False), ("a%b", False), ("%a%", True)])
def test_only_patterns_with_text_between_two_wildcards_are_searched_for(pattern: str, *, is_searched_for: bool) -> None:
    assert LikePattern.parse(pattern).is_searched_for == is_searched_for
