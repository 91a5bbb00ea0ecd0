"""When subscriptions are in force: confirmed by all pubends, or given up on in time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.host.readiness import Readiness, Waiting

WAIT_MS = 3_000
RETRY_MS = 500


def readiness(*waits: tuple[int, int, int]) -> Readiness:
    """With subscriptions (connection, number, version) that wait since 10,000."""
    made = Readiness(wait_ms=WAIT_MS)
    for connection, number, version in waits:
        made.wait(connection, number, version, now_ms=10_000)
    return made


def ready(made: Readiness, pubends: list[str], now_ms: int = 10_001) -> list[tuple[int, tuple[str, ...]]]:
    return [(each.number, pending) for each, pending in made.take_ready(pubends, now_ms=now_ms)]


def test_a_subscription_is_ready_when_every_pubend_has_confirmed_its_version() -> None:
    made = readiness((1, 7, 3))
    assert ready(made, ["p", "q"]) == []
    made.confirm("p", 3, tick=100)
    assert ready(made, ["p", "q"]) == []
    made.confirm("q", 4, tick=100)
    assert made.take_ready(["p", "q"], now_ms=10_001) == [(Waiting(1, 7, 3, 10_000 + WAIT_MS), ())]
    assert not made.is_waiting
    assert ready(made, ["p", "q"]) == []


def test_without_pubends_a_subscription_is_ready_at_once() -> None:
    assert ready(readiness((1, 7, 3)), []) == [(7, ())]


def test_an_older_version_does_not_confirm_a_newer_one() -> None:
    made = readiness((1, 7, 3))
    made.confirm("p", 2, tick=100)
    assert ready(made, ["p"]) == []
    assert made.unconfirmed(["p"]) == [("p", 3)]


def test_a_subscription_that_changes_nothing_waits_for_the_wider_one_all_the_same() -> None:
    made = readiness((1, 7, 3), (2, 8, 3))
    assert ready(made, ["p"]) == []
    made.confirm("p", 3, tick=100)
    assert ready(made, ["p"]) == [(7, ()), (8, ())]
    made.wait(3, 9, 3, now_ms=10_002)
    assert ready(made, ["p"]) == [(9, ())]


def test_those_that_are_ready_leave_the_others_waiting() -> None:
    made = readiness((1, 7, 3), (1, 8, 4))
    made.confirm("p", 3, tick=100)
    assert ready(made, ["p"]) == [(7, ())]
    assert made.is_waiting
    assert made.unconfirmed(["p"]) == [("p", 4)]


def test_a_pubend_that_does_not_answer_in_time_is_reported_as_pending() -> None:
    made = readiness((1, 7, 3))
    made.confirm("q", 3, tick=100)
    assert ready(made, ["p", "q", "r"], now_ms=10_000 + WAIT_MS - 1) == []
    assert ready(made, ["p", "q", "r"], now_ms=10_000 + WAIT_MS) == [(7, ("p", "r"))]
    assert not made.is_waiting


def test_a_late_answer_to_what_was_given_up_harms_nobody() -> None:
    made = readiness((1, 7, 3))
    assert ready(made, ["p"], now_ms=20_000) == [(7, ("p",))]
    made.confirm("p", 3, tick=100)
    assert ready(made, ["p"], now_ms=20_001) == []
    assert made.unconfirmed(["p"]) == []


def test_the_tick_of_a_confirmation_is_that_of_the_newest_version() -> None:
    made = readiness()
    assert made.start_tick("p") == 0
    made.confirm("p", 3, tick=100)
    made.confirm("p", 3, tick=120)
    made.confirm("p", 2, tick=130)
    assert made.start_tick("p") == 100
    made.confirm("p", 4, tick=140)
    assert made.start_tick("p") == 140
    assert made.start_tick("q") == 0


def test_what_is_asked_for_is_the_newest_version_that_anybody_waits_for() -> None:
    made = readiness((1, 7, 3), (1, 8, 4), (1, 9, 5))
    made.confirm("q", 4, tick=1)
    made.confirm("r", 5, tick=1)
    assert made.unconfirmed(["p", "q", "r"]) == [("p", 5), ("q", 5)]
    assert readiness().unconfirmed(["p"]) == []


def test_the_deadline_is_the_next_retry_or_the_first_end_of_waiting() -> None:
    made = readiness()
    assert made.next_deadline() is None
    made.wait(1, 7, 3, now_ms=10_000)
    assert made.next_deadline() == 10_000 + RETRY_MS
    made.wait(1, 8, 3, now_ms=10_100)
    assert made.next_deadline() == 10_000 + RETRY_MS
    for now_ms in range(10_500, 12_501, RETRY_MS):
        assert not made.is_time_to_retry(now_ms=now_ms - 1)
        assert made.is_time_to_retry(now_ms=now_ms)
        assert not made.is_time_to_retry(now_ms=now_ms)
    assert made.is_time_to_retry(now_ms=13_000)
    assert made.next_deadline() == 10_000 + WAIT_MS
    ready(made, ["p"], now_ms=13_000)
    assert made.next_deadline() == 10_100 + WAIT_MS
    ready(made, ["p"], now_ms=13_100)
    # Nobody waits any more, but the pubend is still to be asked: who is subscribed begins there when it answers.
    assert made.next_deadline() == 13_000 + RETRY_MS
    made.rest()
    assert made.next_deadline() is None
    assert not made.is_time_to_retry(now_ms=99_999)


def test_a_client_that_has_gone_waits_no_more() -> None:
    made = readiness((1, 7, 3), (2, 7, 3), (1, 8, 4))
    made.drop(1)
    assert made.take_ready(["p"], now_ms=13_000) == [(Waiting(2, 7, 3, 13_000), ("p",))]


def test_one_subscription_can_be_dropped_without_the_others() -> None:
    made = readiness((1, 7, 3), (1, 8, 3))
    made.drop(1, 7)
    assert ready(made, [], now_ms=10_001) == [(8, ())]


def test_when_all_clients_have_gone_pubends_are_asked_until_all_have_answered() -> None:
    made = readiness((1, 7, 3))
    made.drop(1)
    assert not made.is_waiting
    assert made.unconfirmed(["p"]) == [("p", 3)]
    made.confirm("p", 3, tick=1)
    assert made.unconfirmed(["p"]) == []
    made.rest()
    assert made.next_deadline() is None


def test_a_change_of_the_overlay_is_a_reason_to_ask_again_if_anybody_ever_subscribed() -> None:
    made = readiness()
    made.stir(now_ms=5_000)
    assert made.next_deadline() is None
    made.wait(1, 7, 3, now_ms=10_000)
    made.rest()
    made.stir(now_ms=20_000)
    made.stir(now_ms=20_400)
    assert made.is_time_to_retry(now_ms=20_000 + RETRY_MS)
    assert made.unconfirmed(["p"]) == [("p", 3)]


def test_a_client_that_comes_after_all_have_rested_has_retries_of_its_own() -> None:
    made = readiness((1, 7, 3))
    made.drop(1)
    made.rest()
    made.wait(2, 7, 3, now_ms=20_000)
    assert made.next_deadline() == 20_000 + RETRY_MS
    assert not made.is_time_to_retry(now_ms=20_000)


def version_of(wait: tuple[int, int]) -> int:
    return wait[1]


@given(
    # Versions only grow, and so do those that are waited for.
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 6)), max_size=6).map(
        lambda each: sorted(each, key=version_of)
    ),
    st.lists(st.tuples(st.sampled_from("pqr"), st.integers(0, 7)), max_size=8),
    st.integers(10_000, 14_000),
)
def test_readiness_agrees_with_its_definition(
    waits: list[tuple[int, int]], confirmations: list[tuple[str, int]], now_ms: int
) -> None:
    made = readiness(*((connection, number, version) for number, (connection, version) in enumerate(waits)))
    for pubend, version in confirmations:
        made.confirm(pubend, version, tick=1)
    reached = {name: max([version for each, version in confirmations if each == name], default=-1) for name in "pqr"}
    expected = []
    for number, (_, version) in enumerate(waits):
        pending = tuple(name for name in "pqr" if reached[name] < version)
        if not pending or now_ms >= 10_000 + WAIT_MS:
            expected.append((number, pending))
    assert ready(made, ["p", "q", "r"], now_ms) == expected
    assert made.is_waiting == (len(expected) < len(waits))


def test_a_subscription_to_some_pubends_waits_for_what_it_awaits_and_nothing_else() -> None:
    made = readiness((1, 7, 3))
    made.wait(1, 8, 3, ("q",), now_ms=10_000)
    made.wait(2, 9, 3, ("q", "r"), now_ms=10_000)
    made.confirm("q", 3, tick=100)

    def narrowed(now_ms: int, *, has_begun: bool = True) -> list[tuple[int, tuple[str, ...]]]:
        found = made.take_ready_narrowed(lambda each: list(each.pubends), now_ms=now_ms, has_begun=lambda _: has_begun)
        return [(each.number, pending) for each, pending in found]

    assert ready(made, ["p", "q"]) == []
    assert narrowed(10_001, has_begun=False) == []
    assert narrowed(10_001) == [(8, ())]
    seen = [made.has_narrowed]
    assert narrowed(10_000 + WAIT_MS) == [(9, ("r",))]
    seen.append(made.has_narrowed)
    made.wait(2, 9, 3, ("q",), now_ms=10_000)
    made.drop(2)
    seen.append(made.has_narrowed)
    assert seen == [True, False, False]
    assert made.is_waiting
