"""What clients get of what they ask for: nothing of the system's own unless they may see the status."""

from __future__ import annotations

import pytest

from penstock.broker.access import Access, Rule
from penstock.broker.accounts import Account
from penstock.broker.clients.selecting import _NARROWED_CHARS_MAX, Selecting
from penstock.broker.peers import Guest
from penstock.broker.settings import BrokerSettings
from penstock.selectors.selector import EVERYTHING, Selector

GUARDED = Access({"mallory": "token"}, (Rule("%"),))
SYSTEM = ("$class = 'AJIL'", "x = 1 OR $class = 'PIE'", "NOT ($class = 'PIE')", '"$class" IS NULL', "$a + x > 1")


def guest(rule: Rule) -> Guest:
    return Guest(Account("mallory"), 1, rule)


def selecting(access: Access = GUARDED) -> Selecting:
    return Selecting(BrokerSettings("b", access=access))


@pytest.mark.parametrize("text", SYSTEM)
def test_the_systems_own_publications_are_for_clients_that_may_see_the_status(text: str) -> None:
    refused = ("client mallory may not select what belongs to the system ($)", None)
    assert selecting().select(guest(Rule("%")), text) == refused
    assert selecting().select(guest(Rule("%", status=True)), text) == ("", Selector.parse(text))
    assert selecting(Access()).select(guest(Rule("%")), text) == ("", Selector.parse(text))


def test_a_value_may_look_like_something_of_the_system() -> None:
    text = "price = '$class'"
    assert selecting().select(guest(Rule("%")), text) == ("", Selector.parse(text))


def test_what_a_client_wants_is_narrowed_by_its_rule() -> None:
    desk = selecting()
    narrow = guest(Rule("%", subscribe=Selector.parse("x = 1")))
    for _ in range(2):
        assert desk.select(narrow, "y = 2") == ("", Selector.parse("x = 1 AND y = 2"))
    assert desk.select(guest(Rule("%", subscribe=EVERYTHING)), "y = 2") == ("", Selector.parse("y = 2"))


def test_what_is_no_selector_is_a_problem() -> None:
    problem, selector = selecting().select(guest(Rule("%")), "x = = 1")
    assert selector is None
    assert "x = = 1" in problem


def test_selectors_that_were_narrowed_are_remembered_up_to_a_number_of_characters() -> None:
    desk = selecting()
    narrow = guest(Rule("%", subscribe=Selector.parse("x = 1")))
    for number in range(200):
        desk.select(narrow, f"y = '{number}" + "y" * 15_000 + "'")
    assert 0 < desk._narrowed.weight <= _NARROWED_CHARS_MAX
