"""Quotas of clients: by name, over all connections, and given back."""

from __future__ import annotations

from overlay import chain
from penstock.broker import BrokerSettings
from penstock.broker.accounts import Account, Accounts
from penstock.protocol import frames as f


def test_connections_are_counted_by_name() -> None:
    accounts = Accounts(BrokerSettings("b", client_connections_max=2))
    first, second = accounts.open("feed"), accounts.open("feed")
    assert isinstance(first, Account)
    assert first is second
    assert accounts.open("feed") == "client feed has 2 connections, which is the limit (client_connections_max)"
    assert isinstance(accounts.open("other"), Account)
    accounts.close(first)
    assert accounts.open("feed") is first


def test_nothing_is_kept_of_clients_that_have_gone() -> None:
    accounts = Accounts(BrokerSettings("b"))
    for name in ("a", "b"):
        account = accounts.open(name)
        assert isinstance(account, Account)
        accounts.close(account)
    assert len(accounts) == 0


def test_a_client_over_its_limit_of_connections_is_refused_and_others_are_not() -> None:
    overlay = chain("pb", client_connections_max=2)
    names = [overlay.client("pb", "feed") for _ in range(3)]
    assert [each.closed is None for each in names] == [True, True, False]
    assert overlay.client("pb", "other").closed is None
    overlay.leave(names[0])
    assert overlay.client("pb", "feed").closed is None


def test_subscriptions_and_positions_are_shared_by_all_connections_of_a_client_and_given_back() -> None:
    overlay = chain("pb", guaranteed=True, client_subscriptions_max=3, client_positions_max=2)
    one, two = overlay.client("pb", "feed"), overlay.client("pb", "feed")
    one.subscribe(1, "a = 1")
    one.subscribe(2, "a = 2", ("pb.a", 1 << 36), resumes=True)
    two.subscribe(1, "a = 3", ("x", 1), ("y", 1), resumes=True)
    assert two.refusals() == [("subscribe", 1, "client feed states more than 2 positions (client_positions_max)")]
    two.subscribe(2, "a = 4")
    two.subscribe(3, "a = 5")
    assert "has 3 subscriptions, which is the limit" in two.refusals()[-1][2]
    one.say(f.Unsubscribe(1))
    two.subscribe(4, "a = 6")
    overlay.leave(one)
    two.subscribe(5, "a = 7", ("x", 1), ("y", 1), resumes=True)
    assert len(two.refusals()) == 2
    other = overlay.client("pb", "other")
    other.subscribe(1, "a = 1")
    assert other.refusals() == []


def test_selectors_are_counted_by_name_over_all_connections_and_given_back() -> None:
    overlay = chain("pb", client_selector_bytes_max=100)
    one, two = overlay.client("pb", "feed"), overlay.client("pb", "feed")
    half = "a = '" + "x" * 50 + "'"
    one.subscribe(1, half)
    two.subscribe(1, half)
    assert two.refusals() == [
        ("subscribe", 1, "client feed has selectors of more than 100 bytes (client_selector_bytes_max)")
    ]
    one.say(f.Unsubscribe(1))
    two.subscribe(2, half)
    assert len(two.refusals()) == 1
    overlay.leave(two)
    one.subscribe(3, half)
    assert one.refusals() == []


def test_a_selector_counts_as_it_is_kept_if_that_is_longer_than_it_was_said() -> None:
    overlay = chain("pb", client_selector_bytes_max=100)
    client = overlay.client("pb", "feed")
    said = "(a=1 OR b=1) AND (c=1 OR d=1) AND (e=1 OR f=1)"
    assert len(said) < 100
    client.subscribe(1, said)
    assert "more than 100 bytes" in client.refusals()[0][2]


def test_conditions_that_no_index_answers_are_counted_by_name_and_given_back() -> None:
    overlay = chain("pb", client_effort_max=10)
    one, two = overlay.client("pb", "feed"), overlay.client("pb", "feed")
    for number in range(100):
        one.subscribe(number, f"symbol = 'X{number}' AND price > {number}")
    assert one.refusals() == [], "what is looked up costs nothing"
    one.subscribe(100, "x + 1 = y * 2 OR x + 2 = y * 3")
    two.subscribe(1, "x + 1 = y * 5 OR x + 2 = y * 6")
    problem = (
        "client feed: selector conditions that no index can answer exceed 10 operations per message (client_effort_max)"
    )
    assert two.refusals() == [("subscribe", 1, problem)]
    one.say(f.Unsubscribe(100))
    two.subscribe(2, "x + 1 = y * 5 OR x + 2 = y * 6")
    assert len(two.refusals()) == 1


def test_names_that_a_terminal_would_obey_are_refused() -> None:
    overlay = chain("pb")
    client = overlay.client("pb", "\x1b[2Jfeed")
    assert client.closed is not None
    assert "only those that can be printed" in client.closed.reason
    named = overlay.client("pb", "feed")
    named.durable(1, "a\x1b[2J")
    assert "is not 1 to 200 letters" in named.refusals()[0][2]
