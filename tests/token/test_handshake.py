"""The handshake: each rule on its own, and every history of small cases.

The model: all messages ever said stay deliverable for ever, to whom they were said, any number of times and in any
order. That contains loss, delay, repetition and reordering. Besides, offers are withdrawn and acceptances forgotten at
any time (whatever timers say), ends crash and come back without memory, and a token is passed on. In no state that can
be reached do two ends hold the token.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import TypeAlias

import pytest

from penstock.token.handshake import Handed, Handshake
from penstock.token.messages import Accept, Commit, Offer, TokenMessage
from penstock.token.tokens import Token

TOKEN = Token(5, "x", 3)


def ends() -> tuple[Handshake, Handshake]:
    return Handshake(1, retry_ms=10), Handshake(1, retry_ms=10)


def test_a_token_passes_in_three_steps() -> None:
    a, b = ends()
    to, offer = a.offer(TOKEN, "b", now_ms=0)
    assert (to, a.offered) == ("b", [TOKEN])
    assert isinstance(offer, Offer)
    answer = b.on_offer("a", offer, now_ms=1)
    assert answer is not None
    assert isinstance(answer[1], Accept)
    assert b.accepted == 1
    committed = a.on_accept("b", answer[1])
    assert committed is not None
    (to, commit), left = committed
    assert (to, left, a.offered) == ("b", TOKEN, [])
    assert isinstance(commit, Commit)
    assert b.on_commit("a", commit) == TOKEN
    assert b.accepted == 0


def passed() -> tuple[Handshake, Handshake, Offer, Accept, Commit]:
    a, b = ends()
    _, offer = a.offer(TOKEN, "b", now_ms=0)
    assert isinstance(offer, Offer)
    answer = b.on_offer("a", offer, now_ms=0)
    assert answer is not None
    accept = answer[1]
    assert isinstance(accept, Accept)
    committed = a.on_accept("b", accept)
    assert committed is not None
    commit = committed[0][1]
    assert isinstance(commit, Commit)
    return a, b, offer, accept, commit


def test_a_repeated_commit_brings_nothing() -> None:
    _, b, _, _, commit = passed()
    assert b.on_commit("a", commit) == TOKEN
    assert b.on_commit("a", commit) is None


def test_a_repeated_acceptance_is_committed_again_but_no_token_leaves() -> None:
    a, _, _, accept, commit = passed()
    assert a.on_accept("b", accept) == (("b", commit), None)


def test_a_repeated_offer_after_the_end_gets_a_new_acceptance_that_is_never_committed() -> None:
    a, b, offer, accept, commit = passed()
    assert b.on_commit("a", commit) == TOKEN
    again = b.on_offer("a", offer, now_ms=5)
    assert again is not None
    assert isinstance(again[1], Accept)
    assert again[1] != accept
    assert a.on_accept("b", again[1]) is None
    assert b.on_commit("a", commit) is None


def test_a_repeated_offer_before_the_end_gets_the_same_answer() -> None:
    a, b = ends()
    _, offer = a.offer(TOKEN, "b", now_ms=0)
    assert isinstance(offer, Offer)
    assert b.on_offer("a", offer, now_ms=0) == b.on_offer("a", offer, now_ms=9)
    assert b.accepted == 1


def test_somebody_else_cannot_accept_an_offer() -> None:
    a, b = ends()
    _, offer = a.offer(TOKEN, "b", now_ms=0)
    assert isinstance(offer, Offer)
    answer = b.on_offer("a", offer, now_ms=0)
    assert answer is not None
    assert isinstance(answer[1], Accept)
    assert a.on_accept("c", answer[1]) is None
    assert a.offered == [TOKEN]


def test_an_end_that_came_back_commits_and_takes_nothing_of_its_former_life() -> None:
    a, b, offer, accept, commit = passed()
    later = Handshake(2, retry_ms=10)
    assert later.on_commit("a", commit) is None
    assert later.on_accept("b", accept) is None
    answer = later.on_offer("a", offer, now_ms=0)
    assert answer is not None
    assert isinstance(answer[1], Accept)
    assert later.on_commit("a", commit) is None
    assert a.on_accept("b", answer[1]) is None
    assert b.accepted == 1


def test_an_acceptance_of_a_former_life_is_not_taken_for_one_of_an_offer_with_the_same_number() -> None:
    _, _, _, accept, _ = passed()
    later = Handshake(2, retry_ms=10)
    later.offer(Token(9, "y"), "b", now_ms=0)
    assert later.on_accept("b", accept) is None
    assert later.offered == [Token(9, "y")]


def test_an_offer_is_repeated_and_then_given_up_so_that_the_token_is_here_again() -> None:
    a, _ = ends()
    a.offer(TOKEN, "b", now_ms=0)
    assert a.next_deadline() == 10
    assert a.on_deadline(now_ms=9) == ([], [])
    for now_ms in (10, 20):
        said, kept = a.on_deadline(now_ms=now_ms)
        assert [(to, type(message)) for to, message in said] == [("b", Offer)]
        assert [message.sent_ms for _, message in said if isinstance(message, Offer)] == [now_ms]
        assert kept == []
    assert a.on_deadline(now_ms=30) == ([], [("b", TOKEN)])
    assert a.next_deadline() is None


def test_a_late_acceptance_of_an_offer_that_was_given_up_gets_nothing() -> None:
    a, b = ends()
    _, offer = a.offer(TOKEN, "b", now_ms=0)
    assert isinstance(offer, Offer)
    answer = b.on_offer("a", offer, now_ms=0)
    for now_ms in (10, 20, 30):
        a.on_deadline(now_ms=now_ms)
    assert answer is not None
    assert isinstance(answer[1], Accept)
    assert a.on_accept("b", answer[1]) is None


def test_an_acceptance_is_repeated_and_then_forgotten() -> None:
    a, b, _, accept, commit = passed()
    del a
    for now_ms in range(10, 120, 10):
        assert b.on_deadline(now_ms=now_ms) == ([("a", accept)], [])
    assert b.on_deadline(now_ms=120) == ([], [])
    assert b.accepted == 0
    assert b.on_commit("a", commit) is None


def test_acceptances_and_commits_that_are_remembered_are_bounded() -> None:
    b = Handshake(1, retry_ms=10)
    answers = [b.on_offer("a", Offer(1, number, 1, "x", 0, 0), now_ms=0) for number in range(100)]
    assert sum(answer is not None for answer in answers) == b.accepted == 16
    a = Handshake(1, retry_ms=10)
    for number in range(1, 100):
        a.offer(TOKEN, "b", now_ms=0)
        assert a.on_accept("b", Accept(1, number, 1, number)) is not None
    assert a.on_accept("b", Accept(1, 1, 1, 1)) is None
    assert a.on_accept("b", Accept(1, 99, 1, 99)) is not None


# --- every history of small cases

Letter: TypeAlias = tuple[str, str, TokenMessage]
"""From, to, what."""


@dataclass
class End:
    """One end: its handshake, and the token if it holds it without offering it."""

    shake: Handshake
    held: bool = False

    def clone(self) -> End:
        shake = copy(self.shake)
        shake._offered = {key: copy(each) for key, each in shake._offered.items()}
        shake._accepted = {key: copy(each) for key, each in shake._accepted.items()}
        shake._committed = dict(shake._committed)
        return End(shake, self.held)

    @property
    def holds(self) -> int:
        return self.held + len(self.shake.offered)

    def key(self) -> object:
        shake = self.shake
        offered = tuple((number, each.to) for number, each in shake._offered.items())
        accepted = tuple((key, each.accept.number) for key, each in shake._accepted.items())
        return shake.life, shake._number, offered, accepted, tuple(shake._committed), self.held


@dataclass
class State:
    """All ends, and all that was ever said."""

    ends: dict[str, End]
    said: dict[Letter, None] = field(default_factory=dict)
    crashes: int = 0
    hops: int = 0
    forgotten: int = 0

    def clone(self) -> State:
        ends = {name: end.clone() for name, end in self.ends.items()}
        return State(ends, dict(self.said), self.crashes, self.hops, self.forgotten)

    def key(self) -> object:
        ends = tuple(end.key() for end in self.ends.values())
        return ends, frozenset(self.said), self.crashes, self.hops, self.forgotten

    def say(self, sender: str, handed: Handed | None) -> None:
        if handed is not None:
            self.said[sender, handed[0], handed[1]] = None

    @property
    def holders(self) -> int:
        return sum(end.holds for end in self.ends.values())


def delivered(state: State, letter: Letter) -> State:
    sender, to, message = letter
    state = state.clone()
    end = state.ends[to]
    if isinstance(message, Offer):
        state.say(to, end.shake.on_offer(sender, message, now_ms=0))
    elif isinstance(message, Accept):
        answer = end.shake.on_accept(sender, message)
        if answer is not None:
            state.say(to, answer[0])
    elif end.shake.on_commit(sender, message) is not None:
        # A second token at one end counts as two holders as well.
        assert not end.holds, f"{to} got the token while it had it"
        end.held = True
    return state


@dataclass(frozen=True)
class Limits:
    """How much of what makes histories endless may happen."""

    crashes: int
    hops: int
    forgotten: int


SMALL_CASES = [
    ("ab", Limits(crashes=0, hops=3, forgotten=1)),
    ("ab", Limits(crashes=1, hops=2, forgotten=1)),
    ("ab", Limits(crashes=2, hops=2, forgotten=0)),
    ("ab", Limits(crashes=3, hops=1, forgotten=2)),
    ("abc", Limits(crashes=0, hops=3, forgotten=0)),
    ("abc", Limits(crashes=1, hops=2, forgotten=0)),
]


def successors(state: State, limits: Limits, make: Callable[[int], Handshake]) -> Iterator[State]:
    for letter in state.said:
        yield delivered(state, letter)
    for name, end in state.ends.items():
        if end.held and state.hops < limits.hops:
            for to in state.ends:
                if to != name:
                    yield passing(state, name, to)
        for number in end.shake._offered:
            yield withdrawn(state, name, number)
        if state.forgotten < limits.forgotten:
            for key in end.shake._accepted:
                yield forgetting(state, name, key)
        if state.crashes < limits.crashes:
            yield crashed(state, name, make)


def passing(state: State, name: str, to: str) -> State:
    state = state.clone()
    state.hops += 1
    state.ends[name].held = False
    state.say(name, state.ends[name].shake.offer(TOKEN, to, now_ms=0))
    return state


def withdrawn(state: State, name: str, number: int) -> State:
    state = state.clone()
    end = state.ends[name]
    end.shake.withdraw(number)
    end.held = True
    return state


def forgetting(state: State, name: str, key: tuple[str, int, int]) -> State:
    state = state.clone()
    state.forgotten += 1
    state.ends[name].shake.forget(key)
    return state


def crashed(state: State, name: str, make: Callable[[int], Handshake]) -> State:
    state = state.clone()
    state.crashes += 1
    state.ends[name] = End(make(state.ends[name].shake.life + 1))
    return state


def explored(names: str, limits: Limits, make: Callable[[int], Handshake]) -> tuple[int, int]:
    """All states that can be reached: how many, and in how many of them the token has arrived after a hop."""
    start = State({name: End(make(1), held=name == names[0]) for name in names})
    seen, queue, arrived = {start.key()}, deque([start]), 0
    while queue:
        state = queue.popleft()
        assert state.holders <= 1, f"two holders: {state}"
        arrived += any(end.held for name, end in state.ends.items() if name != names[0])
        for following in successors(state, limits, make):
            key = following.key()
            if key not in seen:
                seen.add(key)
                queue.append(following)
    return len(seen), arrived


@pytest.mark.parametrize(("names", "limits"), SMALL_CASES)
def test_no_history_makes_two_tokens_of_one(names: str, limits: Limits) -> None:
    states, arrived = explored(names, limits, lambda life: Handshake(life, retry_ms=10))
    assert states > 40
    assert arrived > 0


class Careless(Handshake):
    """Takes any commit of an offer that it has accepted, as if acceptances had no numbers of their own."""

    def on_commit(self, sender: str, commit: Commit) -> Token | None:
        key = sender, commit.offer_life, commit.offer
        return self._accepted.pop(key).token if key in self._accepted else None


class Ageless(Handshake):
    """Numbers its acceptances as its former life has done."""

    def __init__(self, life: int, *, retry_ms: int) -> None:
        super().__init__(1, retry_ms=retry_ms)


class Hesitant(Handshake):
    """Keeps its token when it commits, in case that the commit is lost."""

    def on_accept(self, sender: str, accept: Accept) -> tuple[Handed, Token | None] | None:
        offered = dict(self._offered)
        answer = super().on_accept(sender, accept)
        self._offered = offered
        return answer


@pytest.mark.parametrize("broken", [Careless, Ageless, Hesitant])
def test_the_exploration_finds_what_is_wrong_with_a_handshake(broken: type[Handshake]) -> None:
    with pytest.raises(AssertionError, match=r"two holders|got the token while it had it"):
        explored("ab", Limits(crashes=1, hops=2, forgotten=1), lambda life: broken(life, retry_ms=10))
