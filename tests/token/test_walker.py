"""Each rule of the walk on its own, and of the variant swift."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.token.settings import PAPER, SWIFT, Constants
from penstock.token.tokens import Token
from penstock.token.walker import Visit, Walker

PRINTED = Constants(PAPER, skip_ms=1, op_ms=4, min_ms=600, max_ms=1_800, probation_ms=100)
BETTER = PRINTED.of_variant(SWIFT)
BOTH = pytest.mark.parametrize("constants", [PRINTED, BETTER], ids=["paper", "swift"])


def visited(walker: Walker, token: Token, now_ms: int) -> Visit:
    """Turns to a token and lets go of it at the end of its stay."""
    visit = walker.arrive(token, now_ms=now_ms)
    assert visit is not None
    if walker.held is not None:
        walker.release(now_ms=walker.until_ms)
    walker.check_invariants()
    return visit


@BOTH
def test_the_first_token_enables_an_operation_for_its_time(constants: Constants) -> None:
    walker = Walker("a", constants, now_ms=0)
    assert walker.arrive(Token(0, "x"), now_ms=200) is Visit.EXECUTE
    assert (walker.until_ms, walker.executed_ms) == (204, 200)
    assert walker.release(now_ms=204) == Token(0, "x", 1)


@BOTH
def test_the_same_token_skips_until_the_least_time_is_over(constants: Constants) -> None:
    walker = Walker("a", constants, now_ms=0)
    token = Token(0, "x")
    assert visited(walker, token, 200) is Visit.EXECUTE
    assert visited(walker, token, 799) is Visit.SKIP
    assert visited(walker, token, 800) is Visit.EXECUTE


@BOTH
def test_a_skip_holds_for_its_time_and_changes_neither_the_operation_nor_the_owner(constants: Constants) -> None:
    walker = Walker("a", constants, now_ms=0)
    visited(walker, Token(0, "x"), 200)
    before = walker.executed_ms, walker.owner
    assert walker.arrive(Token(0, "x", 7), now_ms=300) is Visit.SKIP
    assert walker.until_ms == 301
    assert walker.release(now_ms=301) == Token(0, "x", 7)
    assert (walker.executed_ms, walker.owner) == before


def test_paper_a_token_is_discarded_if_the_one_remembered_precedes_it() -> None:
    walker = Walker("a", PRINTED, now_ms=0)
    visited(walker, Token(50, "x"), 200)
    assert visited(walker, Token(60, "y"), 300) is Visit.DISCARD
    assert visited(walker, Token(50, "y"), 300) is Visit.DISCARD
    assert walker.held is None


def test_paper_a_token_that_precedes_the_one_remembered_skips() -> None:
    walker = Walker("a", PRINTED, now_ms=0)
    visited(walker, Token(50, "x"), 200)
    assert visited(walker, Token(40, "y"), 300) is Visit.SKIP
    assert visited(walker, Token(50, "w"), 300) is Visit.SKIP
    assert walker.owner == Token(50, "x", 1)


def test_paper_a_token_that_finds_an_operation_due_is_never_discarded() -> None:
    walker = Walker("a", PRINTED, now_ms=0)
    visited(walker, Token(50, "x"), 200)
    assert visited(walker, Token(60, "y"), 800) is Visit.EXECUTE
    assert walker.owner == Token(60, "y", 1)


def test_paper_the_memory_of_a_lost_token_kills_its_successor() -> None:
    """The domino effect of section 4, which the variant swift avoids."""
    printed, better = Walker("a", PRINTED, now_ms=0), Walker("a", BETTER, now_ms=0)
    for walker in (printed, better):
        visited(walker, Token(0, "lost"), 1_900)
    assert visited(printed, Token(2_000, "new"), 2_100) is Visit.DISCARD
    assert visited(better, Token(2_000, "new"), 2_100) is Visit.SKIP


def test_swift_a_token_is_discarded_if_an_older_one_was_seen_after_it_was_made() -> None:
    walker = Walker("a", BETTER, now_ms=0)
    visited(walker, Token(0, "old"), 2_001)
    assert visited(walker, Token(2_000, "new"), 2_100) is Visit.DISCARD


def test_swift_a_skipping_older_token_is_evidence_too() -> None:
    walker = Walker("a", BETTER, now_ms=0)
    visited(walker, Token(0, "old"), 1_900)
    assert visited(walker, Token(0, "old"), 2_050) is Visit.SKIP
    assert visited(walker, Token(2_000, "new"), 2_100) is Visit.DISCARD


def test_swift_a_younger_token_is_no_evidence_against_an_older_one() -> None:
    walker = Walker("a", BETTER, now_ms=0)
    visited(walker, Token(2_000, "new"), 2_200)
    assert visited(walker, Token(0, "old"), 2_300) is Visit.SKIP


def test_swift_a_discarded_token_is_no_evidence_against_others() -> None:
    walker = Walker("a", BETTER, now_ms=0)
    visited(walker, Token(0, "old"), 2_001)
    assert visited(walker, Token(2_000, "b"), 2_100) is Visit.DISCARD
    assert visited(walker, Token(2_050, "c"), 2_200) is Visit.SKIP


def test_swift_a_token_on_probation_skips_where_an_operation_is_due() -> None:
    walker = Walker("a", BETTER, now_ms=0)
    assert visited(walker, Token(5_000, "x"), 5_099) is Visit.SKIP
    assert walker.executed_ms is None
    assert visited(walker, Token(5_000, "x"), 5_100) is Visit.EXECUTE


def test_swift_remembers_the_last_visits_of_few_tokens() -> None:
    walker = Walker("a", BETTER, now_ms=0)
    for number in range(100):
        visited(walker, Token(10 * number, str(number)), 10 * number)
    walker.check_invariants()


@BOTH
def test_every_reception_takes_a_share_of_what_the_timeout_is_above_its_least(constants: Constants) -> None:
    walker = Walker("a", constants, now_ms=0)
    walker.gen_ms = 2_800.0
    visited(walker, Token(0, "x"), 200)
    assert walker.gen_ms == 2_750.0
    visited(walker, Token(0, "x"), 300)
    assert walker.gen_ms == 2_702.5


@BOTH
def test_a_discarded_token_lowers_the_timeout_and_restarts_the_timer(constants: Constants) -> None:
    walker = Walker("a", constants, now_ms=0)
    visited(walker, Token(0, "x"), 200)
    walker.gen_ms = 2_800.0
    assert visited(walker, Token(100, "y"), 300) is Visit.DISCARD
    assert walker.gen_ms == 2_750.0
    assert walker.due_ms == 300 + 2_750


@BOTH
def test_the_timer_restarts_at_the_end_of_a_hold(constants: Constants) -> None:
    walker = Walker("a", constants, now_ms=0)
    assert walker.due_ms == 1_800
    visited(walker, Token(0, "x"), 200)
    assert walker.due_ms == 204 + 1_800


def test_paper_a_token_that_is_made_operates_and_raises_the_timeout() -> None:
    walker = Walker("a", PRINTED, now_ms=0)
    assert walker.generate(now_ms=1_800) is Visit.EXECUTE
    assert (walker.held, walker.owner) == (Token(1_800, "a:1", 1), Token(1_800, "a:1", 1))
    assert (walker.gen_ms, walker.executed_ms, walker.generated) == (2_700.0, 1_800, 1)
    walker.release(now_ms=1_804)
    assert walker.due_ms == 1_804 + 2_700


def test_swift_a_token_that_is_made_skips_and_raises_the_timeout() -> None:
    walker = Walker("a", BETTER, now_ms=0)
    assert walker.generate(now_ms=1_800) is Visit.SKIP
    assert (walker.until_ms, walker.gen_ms, walker.executed_ms) == (1_801, 2_700.0, None)


def test_swift_without_probation_operates_at_once() -> None:
    walker = Walker("a", replace(BETTER, probation_ms=0), now_ms=0)
    assert walker.generate(now_ms=1_800) is Visit.EXECUTE


def test_tokens_made_by_one_component_all_differ() -> None:
    walker = Walker("a", PRINTED, now_ms=0)
    walker.generate(now_ms=1_800)
    first = walker.release(now_ms=1_800)
    walker.generate(now_ms=1_800)
    assert walker.release(now_ms=1_800).generation != first.generation


@BOTH
def test_a_token_that_comes_to_a_busy_component_waits(constants: Constants) -> None:
    walker = Walker("a", constants, now_ms=0)
    walker.arrive(Token(0, "x"), now_ms=200)
    assert walker.arrive(Token(0, "w"), now_ms=201) is None
    assert walker.next_waiting(now_ms=202) is None
    assert walker.waiting == 1
    walker.release(now_ms=204)
    assert walker.next_waiting(now_ms=204) is Visit.SKIP
    assert walker.held == Token(0, "w")
    assert walker.next_waiting(now_ms=204) is None


def test_tokens_that_wait_are_turned_to_in_their_order() -> None:
    walker = Walker("a", PRINTED, now_ms=0)
    walker.arrive(Token(100, "x"), now_ms=200)
    for name in ("c", "b", "d"):
        walker.arrive(Token(0, name), now_ms=201)
    order = []
    for _ in range(3):
        walker.release(now_ms=210)
        walker.next_waiting(now_ms=210)
        assert walker.held is not None
        order.append(walker.held.id)
    assert order == ["c", "b", "d"]


def test_other_constants_scale_what_was_learnt_and_what_is_left_of_the_timeout() -> None:
    walker = Walker("a", PRINTED, now_ms=0)
    walker.gen_ms = 2_700.0
    walker.adapt(replace(PRINTED, min_ms=1_200, max_ms=3_600), now_ms=800)
    assert (walker.gen_ms, walker.due_ms) == (5_400.0, 800 + 2_000)
    walker.adapt(PRINTED, now_ms=1_800)
    assert (walker.gen_ms, walker.due_ms) == (2_700.0, 1_800 + 500)
    visited(walker, Token(0, "x"), 2_000)
    assert visited(walker, Token(0, "x"), 2_600) is Visit.EXECUTE


def test_a_loss_takes_all_tokens_and_what_was_learnt_of_losses() -> None:
    walker = Walker("a", PRINTED, now_ms=0)
    walker.gen_ms = 2_700.0
    walker.arrive(Token(0, "x"), now_ms=200)
    walker.arrive(Token(0, "w"), now_ms=201)
    assert walker.lose(now_ms=202) == 2
    assert (walker.held, walker.waiting, walker.gen_ms) == (None, 0, 1_800.0)
    assert walker.due_ms == 202 + 1_800


def test_nothing_is_released_that_is_not_held() -> None:
    with pytest.raises(AssertionError, match="holds no token"):
        Walker("a", PRINTED, now_ms=0).release(now_ms=1)
