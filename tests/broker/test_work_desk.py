"""Work queues over a chain of brokers: members anywhere share what is published, each message done once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from overlay import Overlay, TestClient
from penstock.broker.effects import ReadLog
from penstock.broker.settings import BrokerSettings
from penstock.protocol import frames as f
from penstock.protocol.work_frames import DEAD_LETTERS, Outcome, Verdict
from penstock.work.ledger import State


def chain() -> Overlay:
    """The pubend's broker, one in between and the host."""
    overlay = Overlay(
        BrokerSettings("pb", number=1, pubends=("pb.a",), neighbours=("mb",), inquiry_ms=0),
        BrokerSettings("mb", number=2, neighbours=("pb", "sb")),
        BrokerSettings("sb", number=3, neighbours=("mb",)),
    )
    overlay.link("mb", "pb")
    overlay.link("sb", "mb")
    overlay.wait(2_000)
    return overlay


def join(client: TestClient, number: int = 1, *, group: str = "g", member: bytes = b"", round_: int = 1) -> None:
    name = member or str(client.connection).encode()
    client.say(f.Join(number, "", group, name, round_, "", 30_000, prefetch=2))


def handed(client: TestClient) -> list[tuple[int, int]]:
    """Tick and attempt of all that a client was handed."""
    frames = [each for each in client.heard if isinstance(each, f.Handed)]
    return [pair for each in frames for pair in zip(each.ticks, each.attempts, strict=True)]


def judge(client: TestClient, message: tuple[int, int], verdict: Verdict = Verdict.DONE) -> None:
    client.say(f.Verdicts(1, "pb.a", ((*message, verdict, 0, ""),)))


def outcomes(client: TestClient) -> list[int]:
    return [each[3] for frame in client.heard if isinstance(frame, f.Outcomes) for each in frame.outcomes]


def working(*hosts: str) -> tuple[Overlay, list[TestClient]]:
    """Members at these brokers, and four messages."""
    overlay = chain()
    workers = [overlay.client(host, f"w{number}") for number, host in enumerate(hosts)]
    for worker in workers:
        join(worker)
    overlay.wait(100)
    overlay.client("pb", "feed").publish(*[{"number": number} for number in range(4)])
    overlay.wait(100)
    return overlay, workers


def test_members_at_all_brokers_share_messages_and_are_answered() -> None:
    _, workers = working("sb", "pb")
    assert all(worker.all(f.Subscribed) for worker in workers)
    shares = [handed(worker) for worker in workers]
    assert [len(share) for share in shares] == [2, 2]
    assert len({tick for share in shares for tick, _ in share}) == 4
    for worker, share in zip(workers, shares, strict=True):
        judge(worker, share[0])
        assert outcomes(worker) == [Outcome.KEPT]
    judge(workers[0], shares[1][1])
    assert outcomes(workers[0])[-1] == Outcome.LOST


def test_what_a_member_unsubscribes_from_comes_to_others_at_once() -> None:
    _, (one, other) = working("sb", "pb")
    for message in handed(other):
        judge(other, message)
    one.say(f.Unsubscribe(1))
    assert one.all(f.Unsubscribed)
    assert [attempt for _, attempt in handed(other)] == [1, 1, 2, 2]


def test_a_member_that_says_goodbye_may_come_back_and_has_what_it_had() -> None:
    overlay, (one, other) = working("sb", "pb")
    for message in handed(other):
        judge(other, message)
    one.say(f.Goodbye("silent", ""))
    overlay.wait(1_000)
    assert [attempt for _, attempt in handed(other)] == [1, 1]
    back = overlay.client("mb", "w0")
    join(back, member=str(one.connection).encode(), round_=2)
    overlay.wait(1_000)
    assert handed(back) == handed(one)
    judge(back, handed(back)[0])
    assert outcomes(back) == [Outcome.KEPT]


def test_what_got_lost_on_the_way_is_sent_again() -> None:
    overlay = chain()
    worker = overlay.client("sb", "w")
    join(worker)
    overlay.wait(100)
    overlay.loses = f.Handed
    overlay.client("pb", "feed").publish({"number": 1})
    overlay.wait(100)
    assert handed(worker) == []
    overlay.loses = None
    overlay.wait(5_000)
    assert [attempt for _, attempt in handed(worker)] == [1]


def test_a_restarted_pubend_hands_out_to_the_members_that_it_finds() -> None:
    overlay, (one,) = working("sb")
    overlay.crash("pb")
    overlay.wait(10)
    overlay.start("pb")
    overlay.link("mb", "pb")
    overlay.wait(3_000)
    had = {*handed(one)}
    for message in had:
        judge(one, message)
    overlay.wait(1_000)
    assert outcomes(one) == [Outcome.KEPT] * 2
    assert [attempt for _, attempt in {*handed(one)} - had] == [1, 1]
    overlay.brokers["pb"].work.home.check_invariants()


def test_a_client_that_cannot_join_is_told_why() -> None:
    overlay = chain()
    client = overlay.client("sb", "w")
    join(client)
    client.say(f.Join(1, "", "g", b"me", 1, "", 30_000))
    client.say(f.Join(2, "", "no name", b"me", 1, "", 30_000))
    client.say(f.Join(2**33, "", "g", b"me", 1, "", 30_000))
    client.say(f.Join(3, "", "g", b"me", 1, "", 30_000, prefetch=1_001))
    client.say(f.Join(4, "", "g", b"me", 1, "", 30_000, 5))
    client.say(f.Join(5, "x = (", "g", b"me", 1, "", 30_000))
    client.say(f.Join(6, "", "g", b"me", 1, "", 10_000))
    reasons = {number: reason for _, number, reason in client.refusals()}
    assert "exists already" in reasons[1]
    assert "group name" in reasons[2]
    assert "32 bits" in reasons[2**33]
    assert "prefetch" in reasons[3]
    assert "dead letters" in reasons[4]
    assert 5 in reasons
    assert "work_ms" in reasons[6]


def test_the_time_for_a_message_begins_when_it_is_handed_out_also_after_a_slow_read() -> None:
    overlay = chain()
    first = overlay.client("pb", "w0")
    join(first)
    first.say(f.Unsubscribe(1))
    overlay.client("pb", "feed").publish({"number": 1})
    overlay.crash("pb")
    overlay.syncs = False
    overlay.start("pb")
    join(overlay.client("pb", "w1"))
    overlay.now_ms += 700
    # The read ends first: nothing else tells the broker the time.
    overlay._waiting.sort(key=lambda each: not isinstance(each[1], ReadLog))
    overlay.sync()
    (group,) = overlay.brokers["pb"].work.home.groups.values()
    (task,) = group.ledger.undone_tasks()
    assert task.state is State.HELD
    assert task.work_until_ms == overlay.now_ms + 40_000


def test_dead_letters_are_kept_as_soon_as_changed_settings_say_where() -> None:
    overlay = chain()
    broker = overlay.brokers["pb"]
    changed = replace(overlay.settings["pb"], dead_letters="pb.a")
    overlay._act("pb", broker.apply(changed, now_ms=overlay.now_ms))
    assert [*broker.work.home.groups] == [("pb.a", DEAD_LETTERS)]


@pytest.mark.parametrize(("refusing", "other"), [("a", "b"), ("b", "a")])
def test_a_member_that_one_pubend_refuses_belongs_to_the_group_nowhere(refusing: str, other: str) -> None:
    overlay = Overlay(BrokerSettings("pb", number=1, pubends=("a", "b")))
    first = overlay.client("pb", "first")
    first.say(f.Join(1, "x = 1", "g", b"first", 1, "", 30_000, pubends=(refusing,)))
    second = overlay.client("pb", "second")
    second.say(f.Join(1, "x = 2", "g", b"second", 1, "", 30_000))
    overlay.wait(100)
    assert "selector" in second.refusals()[0][2]
    groups = overlay.brokers["pb"].work.home.groups
    assert len(groups[refusing, "g"].members) == 1
    assert (other, "g") not in groups or not groups[other, "g"].members


def test_a_group_needs_pubends_that_have_a_log() -> None:
    overlay = Overlay(BrokerSettings("pb", number=1, pubends=("a", "calls"), best_effort=("calls",)))
    client = overlay.client("pb", "w")
    client.say(f.Join(1, "", "g", b"w", 1, "", 30_000, pubends=("a", "calls")))
    client.say(f.Join(2, "", "g", b"w", 1, "", 30_000, pubends=("a", "nobody")))
    overlay.wait(100)
    assert [(number, "calls is best effort" in reason) for _, number, reason in client.refusals()] == [(1, True)]
    told = [each for each in client.heard if isinstance(each, f.Subscribed)]
    assert [(each.number, each.pending) for each in told] == [(2, ("nobody",))]


def test_who_wants_nothing_makes_the_group_and_is_handed_nothing() -> None:
    overlay = chain()
    maker = overlay.client("sb", "maker")
    maker.say(f.Join(1, "", "g", b"maker", 1, "", 30_000, prefetch=0))
    overlay.wait(100)
    overlay.client("pb", "feed").publish({"number": 1}, {"number": 2})
    overlay.wait(1_000)
    assert maker.all(f.Subscribed)
    assert handed(maker) == []
    worker = overlay.client("sb", "worker")
    join(worker)
    overlay.wait(1_000)
    assert [attempt for _, attempt in handed(worker)] == [1, 1]
