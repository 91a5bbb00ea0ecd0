"""Reserved words name attributes only between quotes."""

from __future__ import annotations

import pytest

from penstock.selectors import Selector, SelectorError, attr
from penstock.selectors.keywords import KEYWORDS
from penstock.selectors.lexer import NAME, tokenize
from penstock.selectors.printer import identifier_text

SPELLINGS = sorted(
    spelling for word in KEYWORDS for spelling in (word, word.lower(), word.title(), word[0].lower() + word[1:])
)


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
