"""What pubends need not keep any longer: positions of hosts, age, size, and the policy at the maximum."""

from __future__ import annotations

import pytest

from overlay import chain
from penstock.broker.commits import Commits
from penstock.broker.connections import Connections
from penstock.broker.durable import RecoveredPubend, Trim
from penstock.broker.effects import Record
from penstock.broker.pubend.dead_letters import DeadLetters
from penstock.broker.pubend.finality import Finality
from penstock.broker.pubend.log import PubendLog
from penstock.broker.pubend.register import Register
from penstock.broker.pubend.work import WorkHome
from penstock.broker.settings import BrokerSettings
from penstock.model.tick import tick_at
from penstock.protocol import frames as f
from penstock.protocol.status import DurableStatus

NOW_MS = 1_000_000
GRACE_MS = 10_000
BODY = bytes(40_000)
"""Two of them do not fit the step by which sizes are known."""


def no_dead_letters(logs: dict[str, PubendLog]) -> DeadLetters:
    return DeadLetters("pb", logs, publish=lambda *_: None, send=lambda _: None)


class Keeper:
    """A pubend with ten messages, one per millisecond, and the room that decides what is kept of them."""

    def __init__(self, *, is_old: bool = True, former: RecoveredPubend | None = None, **limits: object) -> None:
        limits = {"retain_ms": 0, "grace_ms": GRACE_MS} | limits
        self.settings = BrokerSettings("pb", pubends=("p",), **limits)  # type: ignore[arg-type]
        self.connections = Connections(self.settings)
        self.log = PubendLog("p", self.settings, former)
        self.register = Register("p", {})
        logs, registers = {"p": self.log}, {"p": self.register}
        work = WorkHome(self.settings, self.connections, logs, registers, Commits(), {}, no_dead_letters(logs))
        self.finality = Finality(self.settings, self.connections, logs, registers, work)
        self.finality.trims(now_ms=NOW_MS)
        self.now_ms = NOW_MS + (GRACE_MS if is_old else 0)
        self.ticks: list[int] = []
        for number in range(1, 1 if former else 11):
            self.publish(number)

    def publish(self, number: int) -> None:
        self.now_ms += 1
        change = self.log.publish(b"", number, [BODY], [{}], now_ms=self.now_ms)
        assert change is not None
        self.log.on_appended(change, number)
        self.log.on_committed(number, now_ms=self.now_ms)
        self.ticks += [tick for tick, _ in change.messages]

    def report(self, host: str, tick: int) -> None:
        self.finality.report("p", host, tick, is_settled=True, now_ms=self.now_ms)

    def trims(self, after_ms: int = 1_000) -> list[int]:
        self.now_ms += after_ms
        changes = self.finality.trims(now_ms=self.now_ms)
        return [each.below_tick for each in changes if isinstance(each, Trim)]

    def events(self) -> list[str]:
        return [each.event for each in self.connections.take_effects() if isinstance(each, Record)]


def test_what_all_hosts_have_goes() -> None:
    keeper = Keeper()
    keeper.report("sb", keeper.ticks[7])
    keeper.report("tb", keeper.ticks[4])
    assert keeper.trims() == [keeper.ticks[4]]
    assert keeper.log.size_bytes == 6 * len(BODY)
    assert keeper.trims() == []
    keeper.report("tb", keeper.ticks[6])
    assert keeper.trims() == [keeper.ticks[6]]


def test_without_any_host_everything_goes_that_was_promised() -> None:
    keeper = Keeper()
    assert keeper.trims() == [keeper.ticks[-1] + 1]
    assert keeper.log.size_bytes == 0


def test_logs_are_looked_at_once_a_second() -> None:
    keeper = Keeper()
    keeper.report("sb", keeper.ticks[2])
    assert keeper.trims() == [keeper.ticks[2]]
    keeper.report("sb", keeper.ticks[3])
    assert keeper.trims(after_ms=500) == []
    assert keeper.trims(after_ms=500) == [keeper.ticks[3]]


def test_right_after_a_start_nobody_has_reported_and_nothing_goes() -> None:
    keeper = Keeper(is_old=False)
    assert keeper.trims() == []
    keeper.report("sb", keeper.ticks[-1])
    assert keeper.trims() == []
    keeper.now_ms = NOW_MS + GRACE_MS - 1_000
    keeper.report("sb", keeper.ticks[-1])
    assert keeper.trims() == [keeper.ticks[-1]]


def test_a_host_that_is_absent_holds_what_it_has_not_confirmed_until_it_lapses() -> None:
    keeper = Keeper()
    keeper.report("sb", keeper.ticks[3])
    assert keeper.trims() == [keeper.ticks[3]]
    assert keeper.trims(GRACE_MS) == []
    assert keeper.finality.counts["hosts_lapsed"] == 0
    assert keeper.trims(1_000) == [keeper.ticks[-1] + 1]
    assert keeper.events() == ["host-lapsed"]


def test_a_position_may_fall_but_what_is_gone_is_gone() -> None:
    keeper = Keeper()
    keeper.report("sb", keeper.ticks[5])
    assert keeper.trims() == [keeper.ticks[5]]
    keeper.report("sb", keeper.ticks[2])
    assert keeper.trims() == []
    assert keeper.log.trimmed_below == keeper.ticks[5]


def test_a_position_beyond_the_end_counts_as_the_end() -> None:
    keeper = Keeper()
    keeper.report("sb", 2**62)
    assert keeper.finality.status()["p"].hosts == {"sb": keeper.ticks[-1] + 1}
    assert keeper.trims() == [keeper.ticks[-1] + 1]


def test_what_is_young_is_kept_whoever_has_it() -> None:
    keeper = Keeper(retain_ms=30_000)
    keeper.report("sb", keeper.ticks[-1] + 1)
    assert keeper.trims() == [] or keeper.log.trimmed_below <= keeper.ticks[0]
    keeper.now_ms = (keeper.ticks[4] >> 16) + 30_000 - 1_000
    keeper.report("sb", keeper.ticks[-1] + 1)
    assert keeper.trims() == [tick_at(keeper.ticks[4] >> 16)]


def test_so_many_bytes_are_kept_whoever_has_them() -> None:
    keeper = Keeper(retain_bytes=3 * len(BODY))
    keeper.report("sb", keeper.ticks[-1] + 1)
    keeper.trims()
    assert keeper.ticks[6] < keeper.log.trimmed_below <= keeper.ticks[7]


def test_at_the_maximum_publishers_are_held_back_and_told_by_whom() -> None:
    keeper = Keeper(retain_bytes_max=10 * len(BODY))
    keeper.report("sb", keeper.ticks[-1])
    keeper.report("tb", keeper.ticks[0])
    keeper.trims()
    reason = keeper.finality.hold_reason()
    assert "pubend p has reached its maximum" in reason
    assert "the furthest behind is tb" in reason
    keeper.report("tb", keeper.ticks[1])
    keeper.trims()
    assert keeper.finality.hold_reason() == ""


def test_at_the_maximum_replay_gives_way_before_publishers_have_to_wait() -> None:
    keeper = Keeper(retain_bytes_max=10 * len(BODY), retain_ms=300_000)
    keeper.report("sb", keeper.ticks[4])
    assert keeper.trims() == [keeper.ticks[4]]
    assert keeper.finality.hold_reason() == ""


def test_below_the_maximum_nobody_is_held_back() -> None:
    assert Keeper(retain_bytes_max=10 * len(BODY) + 1).finality.hold_reason() == ""


def test_laggards_lapse_with_an_alarm_if_the_policy_says_so() -> None:
    keeper = Keeper(retain_bytes_max=10 * len(BODY), retain_policy="lapse")
    keeper.report("sb", keeper.ticks[0])
    assert keeper.finality.hold_reason() == ""
    assert keeper.trims() != []
    assert keeper.ticks[0] < keeper.log.trimmed_below <= keeper.ticks[3]
    assert keeper.finality.counts["log_lapsed"] == 1
    assert keeper.events() == ["log-lapsed"]


def test_a_durable_subscription_holds_what_it_has_not_confirmed_for_ever() -> None:
    keeper = Keeper()
    keeper.register.claim("D", 1, "sb", keeper.ticks[3])
    assert keeper.trims() == [keeper.ticks[3]]
    for _ in range(5):
        assert keeper.trims(10 * GRACE_MS) == []
    keeper.register.move("D", 1, "sb", keeper.ticks[5])
    assert keeper.trims() == [keeper.ticks[5]]
    keeper.register.forget("D")
    assert keeper.trims() == [keeper.ticks[-1] + 1]


def test_hosts_and_durable_subscriptions_hold_whoever_is_further_behind() -> None:
    keeper = Keeper()
    keeper.register.claim("D", 1, "sb", keeper.ticks[5])
    keeper.report("tb", keeper.ticks[2])
    assert keeper.trims() == [keeper.ticks[2]]
    keeper.report("tb", keeper.ticks[8])
    assert keeper.trims() == [keeper.ticks[5]]


def test_right_after_a_start_nothing_goes_whatever_durable_subscriptions_have() -> None:
    keeper = Keeper(is_old=False)
    keeper.register.claim("D", 1, "sb", keeper.ticks[5])
    assert keeper.trims() == []


def test_what_is_young_is_kept_although_no_durable_subscription_needs_it() -> None:
    keeper = Keeper(retain_ms=300_000)
    keeper.register.claim("D", 1, "sb", keeper.ticks[5])
    assert keeper.trims() == [] or keeper.log.trimmed_below <= keeper.ticks[0]


def test_publishers_that_are_held_back_are_told_the_name_that_is_furthest_behind() -> None:
    keeper = Keeper(retain_bytes_max=10 * len(BODY))
    keeper.register.claim("D", 1, "sb", keeper.ticks[3])
    keeper.register.claim("E", 1, "sb", keeper.ticks[0])
    keeper.report("sb", keeper.ticks[5])
    keeper.trims()
    assert "the furthest behind is durable subscription 'E'" in keeper.finality.hold_reason()
    keeper.report("sb", keeper.ticks[0] - 1)
    assert "the furthest behind is sb" in keeper.finality.hold_reason()
    keeper.report("sb", keeper.ticks[5])
    keeper.register.forget("E")
    keeper.trims()
    assert keeper.finality.hold_reason() == ""


def test_a_durable_subscription_that_is_given_up_is_named_in_the_alarm() -> None:
    keeper = Keeper(retain_bytes_max=10 * len(BODY), retain_policy="lapse")
    keeper.register.claim("D", 1, "sb", keeper.ticks[0])
    keeper.trims()
    assert keeper.ticks[0] < keeper.log.trimmed_below <= keeper.ticks[3]
    (alarm,) = [each for each in keeper.connections.take_effects() if isinstance(each, Record)]
    assert (alarm.event, dict(alarm.fields)["durable"]) == ("log-lapsed", "D")


def test_a_durable_subscription_that_has_lapsed_holds_what_is_left_for_it() -> None:
    """It lost its oldest messages to the maximum, and the log is far below that now."""
    keeper = Keeper(retain_bytes_max=8 * len(BODY), retain_policy="lapse")
    keeper.register.claim("D", 1, "sb", keeper.ticks[0])
    (below,) = keeper.trims()
    assert below > keeper.ticks[0]
    keeper.report("sb", keeper.ticks[-1] + 1)
    assert keeper.log.size_bytes < keeper.settings.retain_bytes_max
    assert keeper.trims() == []
    keeper.register.move("D", 1, "sb", keeper.ticks[8])
    assert keeper.trims() == [keeper.ticks[8]]


def test_nobody_is_named_who_is_not_given_up() -> None:
    keeper = Keeper(retain_bytes_max=10 * len(BODY), retain_policy="lapse")
    keeper.register.claim("D", 1, "sb", keeper.ticks[5])
    keeper.report("tb", keeper.ticks[0])
    keeper.trims()
    (alarm,) = [each for each in keeper.connections.take_effects() if isinstance(each, Record)]
    assert (alarm.event, dict(alarm.fields)["durable"]) == ("log-lapsed", "")


def test_the_operator_sees_durable_subscriptions() -> None:
    keeper = Keeper()
    keeper.register.claim("D", 1, "sb", keeper.ticks[5])
    status = keeper.finality.status()["p"]
    assert status.durables == {"D": DurableStatus(keeper.ticks[5], "sb")}
    assert status.durable_count == 1


def test_a_log_of_a_former_life_does_not_grow_far_beyond_its_maximum() -> None:
    size_max = 10 * len(BODY)
    parts = tuple((tick_at(NOW_MS - 10 + number), len(BODY)) for number in range(1, 11))
    former = RecoveredPubend(lease=1, last_tick=tick_at(NOW_MS), first_tick=1, parts=parts)
    keeper = Keeper(former=former, retain_bytes_max=size_max, retain_policy="lapse")
    for number in range(1, 31):
        keeper.publish(number)
        keeper.trims()
        assert keeper.log.size_bytes <= 1.5 * size_max


def test_positions_of_others_pubends_pass_and_only_the_last_word_of_a_host() -> None:
    keeper = Keeper()
    frame = f.Positions("elsewhere", (("sb", 5, True), ("tb", 7, True), ("sb", 6, True)))
    keeper.finality.on_positions(frame, now_ms=NOW_MS)
    passing = keeper.finality.take_passing()
    assert {host: word[0] for host, word in passing["elsewhere"].items()} == {"sb": 6, "tb": 7}
    assert keeper.finality.take_passing() == {}


def test_a_subscription_that_has_begun_is_not_trimmed_away_before_its_first_report() -> None:
    """The pubend has named the tick from which on nothing will be missing; that is a promise from then on.

    1. Nobody is subscribed, nothing is kept for replay, and the broker has been up for long.
    2. A subscription begins; data to it is clogged.
    3. A message is acknowledged.
    4. The pubend looks at its log before the host's first report has come.
    """
    overlay = chain(
        "pb", "ib", "sb", guaranteed=True, retain_ms=0, grace_ms=5_000, cache_bytes=500, silent_ms=1_000_000
    )
    overlay.wait(20_000)
    overlay.clog("pb", "ib")
    client = overlay.client("sb")
    client.subscribe(1, "")
    publisher = overlay.client("pb")
    publisher.publish(*({"number": number} for number in range(20)))
    overlay.cut("pb", "ib")
    overlay.wait(2_500)
    overlay.unclog("pb", "ib")
    overlay.link("pb", "ib")
    overlay.wait(5_000)
    assert not client.all(f.Lost)
    assert client.numbers() == list(range(20))


def test_a_host_that_was_restarted_cannot_raise_its_word_before_it_is_settled() -> None:
    keeper = Keeper()
    keeper.report("sb", keeper.ticks[3])
    keeper.finality.report("p", "sb", keeper.ticks[8], is_settled=False, now_ms=keeper.now_ms)
    assert keeper.trims() == [keeper.ticks[3]]
    keeper.report("sb", keeper.ticks[8])
    assert keeper.trims() == [keeper.ticks[8]]


def test_a_restarted_host_that_this_pubend_knows_nothing_of_holds_everything_until_it_is_settled() -> None:
    keeper = Keeper()
    keeper.finality.report("p", "sb", keeper.ticks[8], is_settled=False, now_ms=keeper.now_ms)
    assert keeper.trims() == []
    keeper.report("sb", keeper.ticks[8])
    assert keeper.trims() == [keeper.ticks[8]]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_client_of_a_host_that_was_restarted_may_be_away_for_its_whole_grace(is_restarted: bool) -> None:
    """Another client is back at once, so the host has something to report that is further on."""
    limits = {"retain_ms": 0, "grace_ms": 12_000, "cache_bytes": 300, "silent_ms": 1_000_000}
    overlay = chain("pb", "sb", guaranteed=True, **limits)
    absent, quick = overlay.client("sb"), overlay.client("sb")
    for client in (absent, quick):
        client.subscribe(1, "")
    publisher = overlay.client("pb")
    overlay.wait(20_000)
    start = absent.horizon()
    if is_restarted:
        overlay.crash("sb")
        overlay.start("sb")
        overlay.link("pb", "sb")
        quick = overlay.client("sb")
        quick.subscribe(1, "", ("pb.a", start), resumes=True)
    else:
        overlay.leave(absent)
    for number in range(10):
        publisher.publish({"number": number})
        overlay.wait(1_000)
        quick.acknowledge("pb.a", quick.horizon())
    back = overlay.client("sb")
    back.subscribe(1, "", ("pb.a", start), resumes=True)
    overlay.wait(5_000)
    assert not back.all(f.Lost)
    assert back.numbers() == list(range(10))
