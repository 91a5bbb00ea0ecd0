"""Errors of an index name the number that is wrong, and are the caller's."""

from __future__ import annotations

import pytest

from penstock.matching.errors import SubscriptionError
from penstock.matching.index import LINKS_MAX, SUBSCRIPTION_MAX, MatchIndex
from penstock.model.errors import MisuseError
from penstock.selectors import EVERYTHING


def test_an_error_about_a_subscription_is_misuse_by_the_caller() -> None:
    assert issubclass(SubscriptionError, MisuseError)
    assert str(SubscriptionError("subscription 7 is not in the index")) == "subscription 7 is not in the index"


@pytest.mark.parametrize(
    ("number", "link", "text"),
    [
        (7, 0, "subscription 7 is in the index already"),
        (-1, 0, f"subscription number -1 is not in 0 .. {SUBSCRIPTION_MAX - 1}"),
        (SUBSCRIPTION_MAX, 0, f"subscription number {SUBSCRIPTION_MAX} is not in 0 .. {SUBSCRIPTION_MAX - 1}"),
        (8, -1, f"link number -1 is not in 0 .. {LINKS_MAX - 1}"),
        (8, LINKS_MAX, f"link number {LINKS_MAX} is not in 0 .. {LINKS_MAX - 1}"),
    ],
)
def test_an_error_names_the_number_and_the_rule_it_broke(number: int, link: int, text: str) -> None:
    index = MatchIndex()
    index.add(7, EVERYTHING)
    with pytest.raises(SubscriptionError) as raised:
        index.add(number, EVERYTHING, link)
    assert str(raised.value) == text
    assert list(index) == [7]


def test_a_removal_of_an_unknown_subscription_is_such_an_error() -> None:
    with pytest.raises(SubscriptionError, match=r"^subscription 7 is not in the index$"):
        MatchIndex().remove(7)
