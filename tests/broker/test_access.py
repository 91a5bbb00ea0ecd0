"""Who may connect, publish and see what."""

from __future__ import annotations

import pytest

from penstock.broker.access import Access, Rule
from penstock.selectors.selector import EVERYTHING, Selector

TOKENS = {"alice": "secret-a", "bob": "secret-b", "empty": ""}


def test_without_tokens_and_certificates_everybody_is_who_they_say() -> None:
    access = Access()
    assert access.is_open
    assert access.identify("anybody", "", "") == "anybody"
    assert access.identify("anybody", "whatever", "") == "anybody"


@pytest.mark.parametrize("access", [Access(tokens=TOKENS), Access(certificates=True)])
def test_tokens_or_certificates_close_the_door(access: Access) -> None:
    assert not access.is_open
    assert access.identify("anybody", "", "") is None


def test_a_client_proves_who_it_is_with_its_own_token_only() -> None:
    access = Access(tokens=TOKENS)
    assert access.identify("alice", "secret-a", "") == "alice"
    assert access.identify("alice", "secret-b", "") is None
    assert access.identify("alice", "secret-", "") is None
    assert access.identify("alice", "", "") is None
    assert access.identify("mallory", "secret-a", "") is None
    assert access.identify("", "secret-a", "") is None


@pytest.mark.parametrize("credential", ["", "secret-a"])
def test_an_empty_token_lets_nobody_in(credential: str) -> None:
    assert Access(tokens=TOKENS).identify("empty", credential, "") is None


def test_a_token_may_have_any_characters() -> None:
    assert Access(tokens={"alice": "gehéim"}).identify("alice", "gehéim", "") == "alice"
    assert Access(tokens={"alice": "gehéim"}).identify("alice", "geheim", "") is None


def test_a_certificate_says_who_the_client_is_whatever_it_calls_itself() -> None:
    access = Access(certificates=True)
    assert access.identify("alice", "", "carol") == "carol"
    assert access.identify("carol", "", "carol") == "carol"


def test_a_certificate_is_no_proof_where_certificates_are_not_accepted() -> None:
    access = Access(tokens=TOKENS)
    assert access.identify("alice", "", "alice") is None
    assert access.identify("alice", "secret-a", "carol") == "alice"


def test_where_certificates_are_asked_for_one_without_a_name_is_nobody() -> None:
    access = Access(tokens=TOKENS, certificates=True)
    assert access.identify("alice", "secret-a", "") is None
    assert access.identify("", "", "") is None
    assert access.identify("alice", "secret-a", "carol") == "carol"


def test_rules_that_allow_all_are_none() -> None:
    assert not Access().has_rules
    assert not Access(rules=(Rule("%"),)).has_rules
    assert Access(rules=()).has_rules
    assert Access(rules=(Rule("feed-%"),)).has_rules


def test_tokens_are_not_shown() -> None:
    assert "secret" not in repr(Access(tokens=TOKENS))


def test_the_first_rule_that_fits_decides() -> None:
    narrow = Rule("sensor-%", subscribe=None)
    one = Rule("sensor-1", publish=None)
    rest = Rule("%", publish=None, subscribe=Selector.parse("public = TRUE"))
    access = Access(rules=(narrow, one, rest))
    assert access.rule_for("sensor-1") is narrow
    assert access.rule_for("sensor-") is narrow
    assert access.rule_for("other") is rest
    assert access.rule_for("") is rest
    assert Access(rules=(one, narrow)).rule_for("sensor-1") is one


def test_a_client_that_no_rule_speaks_of_may_do_nothing() -> None:
    rule = Access(rules=(Rule("alice"),)).rule_for("bob")
    assert (rule.publish, rule.subscribe) == (None, None)
    assert Access(rules=()).rule_for("alice").subscribe is None


def test_if_nobody_says_anything_everybody_may_do_everything() -> None:
    rule = Access().rule_for("anybody")
    assert rule.publish is EVERYTHING
    assert rule.subscribe is EVERYTHING


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("%", "", True),
        ("a%", "alice", True),
        ("a%", "bob", False),
        ("a%", "ba", False),
        ("b_b", "bob", True),
        ("b_b", "bb", False),
        ("alice", "alice", True),
        ("alice", "Alice", False),
        ("alice", "alice2", False),
    ],
)
def test_the_clients_of_a_rule_are_a_like_pattern(pattern: str, name: str, fits: bool) -> None:
    assert Rule(pattern).fits(name) is fits


def test_what_a_rule_lets_see_narrows_what_is_asked_for() -> None:
    allowed = Access(rules=(Rule("%", subscribe=Selector.parse("region = 'eu'")),)).rule_for("alice").subscribe
    assert allowed is not None
    narrowed = Selector.parse("price > 5") & allowed
    assert allowed.covers(narrowed)
    assert narrowed.matches({"price": 6, "region": "eu"})
    assert not narrowed.matches({"price": 6, "region": "us"})
    assert not narrowed.matches({"price": 5, "region": "eu"})
    either = Selector.parse("price > 5 OR region = 'us'") & allowed
    assert allowed.covers(either)
    assert not either.matches({"price": 6, "region": "us"})


@pytest.mark.parametrize(
    ("name", "credential", "missing"),
    [
        ("feed", "secret", ""),
        ("feed", "", "no token"),
        ("feed", "wrong", "wrong token"),
        ("nobody", "secret", "unknown name"),
        ("nobody", "", "unknown name"),
    ],
)
def test_the_operator_is_told_what_a_client_lacks(name: str, credential: str, missing: str) -> None:
    access = Access(tokens={"feed": "secret"})
    assert access.missing_proof(name, credential, "") == missing
    assert access.refusal(name) == f"name {name!r}: wrong or missing token"


def test_a_certificate_that_names_nobody_is_what_is_missing() -> None:
    access = Access(certificates=True)
    assert access.missing_proof("feed", "secret", "") == "no certificate with exactly one name"
    assert access.missing_proof("feed", "", "feed") == ""
    assert "certificate" in access.refusal("feed")
