"""Destinations: which there are, and what a subscription to one selects."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.protocol.stomp import StompError
from penstock.selectors import Selector
from penstock.stomp.destinations import Destination
from strategies import tries

parts = st.text("ab%_!'\\ é", max_size=3)
names = st.lists(parts, min_size=1, max_size=4).map(".".join)
patterns = st.lists(st.one_of(parts, st.just("*")), min_size=1, max_size=4).map(".".join)


def matches(pattern: str, name: str, kind: str = "topic") -> bool:
    selector = Destination.parse(f"/topic/{pattern}").selector("")
    return Selector.parse(selector).matches({"destination": f"/{kind}/{name}"})


def selected(text: str, condition: str = "") -> Selector:
    return Selector.parse(Destination.parse(text).selector(condition))


def wanted(pattern: str, name: str) -> bool:
    """Whether a name fits a pattern, part by part."""
    ours, theirs = pattern.split("."), name.split(".")
    if ours[-1] == ">":
        ours, theirs, has_more = ours[:-1], theirs[: len(ours) - 1], len(theirs) >= len(ours)
        return has_more and ours == theirs
    return len(ours) == len(theirs) and all(one in ("*", other) for one, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("/topic/a", "topic", "a"),
        ("/topic/a/b", "topic", "a/b"),
        ("/topic/ a b ", "topic", " a b "),
        ("/topic/quotes.nyse", "topic", "quotes.nyse"),
        ("/queue/a:b/c.d-e_f", "queue", "a:b/c.d-e_f"),
        ("/pubend/p.a", "pubend", "p.a"),
    ],
)
def test_a_destination_has_a_kind_and_a_name(text: str, kind: str, name: str) -> None:
    found = Destination.parse(text)
    assert (found.kind, found.name, found.text) == (kind, name, text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "topic/a",
        "/topic",
        "/topic/",
        "//topic/a",
        "/Topic/a",
        "/exchange/a",
        "/temp-queue/a",
        "/amq/queue/a",
        "/topic/a\nb",
        "/topic/a\0b",
        "/topic/" + "a" * 250,
        "/queue/a b",
        "/queue/a*",
        "/queue/" + "a" * 201,
        "/pubend/a/b",
        "/pubend/a*",
    ],
)
def test_what_is_no_destination_is_told(text: str) -> None:
    with pytest.raises(StompError) as caught:
        Destination.parse(text)
    assert caught.value.header == "destination"


def test_a_topic_is_selected_by_its_text() -> None:
    selector = selected("/topic/it's")
    assert selector.matches({"destination": "/topic/it's"})
    assert not selector.matches({"destination": "/topic/its"})
    assert not selector.matches({"destination": "/queue/it's"})
    assert not selector.matches({})


def test_a_pubend_is_everything_it_has() -> None:
    assert Destination.parse("/pubend/p").selector("") == ""
    assert Destination.parse("/pubend/p").selector("n = 1") == "n = 1"


@settings(max_examples=tries(1_000))
@given(patterns, names)
def test_a_star_stands_for_one_part(pattern: str, name: str) -> None:
    if Destination.parse(f"/topic/{pattern or 'x'}").is_pattern and name:
        assert matches(pattern, name) == wanted(pattern, name)


@settings(max_examples=tries(500))
@given(names, names)
def test_a_greater_sign_stands_for_the_rest(begin: str, name: str) -> None:
    pattern = f"{begin}.>"
    for each in (name, f"{begin}.{name}"):
        assert matches(pattern, each) == wanted(pattern, each)


def test_a_greater_sign_alone_stands_for_all_topics_and_no_queues() -> None:
    assert matches(">", "a.b")
    assert not matches(">", "a", "queue")


@pytest.mark.parametrize("name", ["a.>.b", ">.a", "*.>", "a.*.b.>"])
def test_patterns_that_mean_nothing_are_told(name: str) -> None:
    with pytest.raises(StompError) as caught:
        Destination.parse(f"/topic/{name}").selector("")
    assert caught.value.header == "destination"


@pytest.mark.parametrize("name", ["a*", "a>b", "**", "a.b*c", ">a"])
def test_stars_within_a_part_are_no_patterns(name: str) -> None:
    assert not Destination.parse(f"/topic/{name}").is_pattern
    assert matches(name, name)


def test_a_pattern_of_many_parts_is_a_selector() -> None:
    name = ".".join("*" * 100)
    assert matches(name, ".".join("a" * 100))
    assert not matches(name, ".".join("a" * 99))
    assert not matches(name, ".".join("a" * 101))


@pytest.mark.parametrize("condition", ["n = 1 OR n = 2", "(n = 1) OR (n = 2)", "[n,>,0],[n,<,3]"])
def test_a_condition_holds_beside_the_destination(condition: str) -> None:
    selector = selected("/topic/x", condition)
    assert selector.matches({"destination": "/topic/x", "n": 2})
    assert not selector.matches({"destination": "/topic/x", "n": 3})
    assert not selector.matches({"destination": "/topic/y", "n": 2})


def test_a_blank_condition_is_none() -> None:
    assert Destination.parse("/topic/x").selector("  ") == "destination = '/topic/x'"


@pytest.mark.parametrize("text", ["/topic/x", "/topic/x.*", "/queue/x", "/pubend/x"])
@pytest.mark.parametrize("condition", ["n = 1) OR (n = 2", "n >", "n = 1 AND", ")", "(", "'", "n = 1 --", "[n,eq"])
def test_an_unsound_condition_is_told_by_its_own_text(text: str, condition: str) -> None:
    with pytest.raises(StompError) as caught:
        Destination.parse(text).selector(condition)
    assert caught.value.header == "selector"
    assert f"  {condition}\n" in caught.value.reason
    assert caught.value.reason.rstrip().endswith("^")
