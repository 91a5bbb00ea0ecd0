from __future__ import annotations

from random import Random

from penstock.ajil import Aup, Channel, Entry, Policy, Report, decode, encode
from penstock.ajil.settings import LimitSettings
from penstock.broker.effects import Record
from penstock.broker.mechanisms.interface import Answer, PublishSystem
from penstock.broker.mechanisms.limiter import GROUPS_MAX, OTHER_GROUPS, Limiter
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageIdSource

AUP = Aup(limit_bytes_s=10_000, alpha=1, beta=1, report_fraction=1.0, version=1, author="file")
IDS = MessageIdSource(publisher=1, broker=2)
BODY = bytes(100)


def limiter(aup: Aup = AUP, name: str = "pb") -> Limiter:
    return Limiter(name, LimitSettings(aup), rng=Random(1))


def tell(each: Limiter, payload: bytes) -> list[Answer]:
    body = encode_body(IDS.next(5), Message.system({"$class": "AJIL"}, payload))
    return each.on_publication({"$class": "AJIL"}, body, now_ms=0)


def epoch(each: Limiter, now_ms: int, sent: dict[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """One epoch of a second, in tenths; how many messages each publisher could send in each group."""
    passed = dict.fromkeys(sent, 0)
    for tenth in range(10):
        at_ms = now_ms + 100 * tenth
        if each.next_deadline() is not None and (each.next_deadline() or 0) <= at_ms:
            each.on_deadline(now_ms=at_ms)
        for (sender, topic), count in sent.items():
            bodies, decoded = [BODY] * (count // 10), [{"topic": topic}] * (count // 10)
            each.want(sender, bodies, decoded)
            passed[sender, topic] += each.admit(sender, bodies, decoded, now_ms=at_ms)
    return passed


def test_without_a_limit_nothing_is_counted_and_nobody_is_woken() -> None:
    each = limiter(Aup())
    assert not each.is_active
    assert each.next_deadline() is None


def test_a_publisher_over_the_limit_is_slowed_down_in_its_group() -> None:
    each = limiter()
    load = {("feed@pb/1", "IBM"): 150, ("feed@pb/1", "SUN"): 0}
    passed = [epoch(each, 1000 * number, load)["feed@pb/1", "IBM"] for number in range(1, 8)]
    assert passed[0] == 150
    assert passed[-1] <= 110
    assert [(found.publisher, found.group) for found in each.status().slowed] == [("feed@pb/1", "IBM")]
    reason, rate_s = each.reason("feed@pb/1", {"topic": "IBM"})
    assert reason.startswith("group 'IBM' is slowed down to")
    assert reason.endswith("to keep the limit of 10 KB/s (global, alpha 1, beta 1)")
    assert 5_000 < rate_s < 12_000


def test_shares_of_other_brokers_count() -> None:
    each = limiter()
    load = {("feed@pb/1", "IBM"): 60}
    for number in range(1, 6):
        tell(each, encode(Report("pb2", 1, (Entry("IBM", 9000.0, 90.0, 1, (("other@pb2/1", 9000.0, 90.0),)),))))
        passed = epoch(each, 1000 * number, load)
    assert passed["feed@pb/1", "IBM"] < 60
    assert each.status().estimate_bytes_s > 10_000


def test_reports_and_policies_are_publications_of_the_reserved_space() -> None:
    each = limiter()
    epoch(each, 1000, {("feed@pb/1", "IBM"): 50})
    answers = each.on_deadline(now_ms=2000)
    assert answers
    for answer in answers:
        assert isinstance(answer, PublishSystem)
        assert answer.message.attributes["$class"] == "AJIL"


def test_a_newer_policy_that_is_heard_counts_at_once_and_is_on_record() -> None:
    each = limiter()
    answers = tell(each, encode(Policy.of("pb2", AUP.successor("ann", limit_bytes_s=500.0))))
    assert each.aup.limit_bytes_s == 500
    assert isinstance(answers[0], Record)
    assert answers[0].event == "limit-changed"
    assert not each.apply(LimitSettings(AUP)), "what the file said is older"


def test_what_is_no_message_is_counted_and_ignored() -> None:
    each = limiter()
    assert tell(each, b"noise") == []
    assert each.on_publication({}, b"not even a body", now_ms=0) == []
    assert each.counts["malformed"] == 2


def test_a_link_that_comes_up_is_told_which_policy_is_here() -> None:
    each = limiter()
    assert len(each.on_neighbour("b", up=True, now_ms=0)) == 1
    assert each.on_neighbour("b", up=False, now_ms=0) == []
    assert each.on_message("b", b"", now_ms=0) == []


def test_a_publisher_that_leaves_leaves_nothing_behind_after_a_while() -> None:
    each = limiter()
    for number in range(1, 5):
        epoch(each, 1000 * number, {("feed@pb/1", "IBM"): 200})
    assert each.status().slowed_channels == 1
    each.leave("feed@pb/1")
    each.leave("nobody@pb/3")
    for number in range(5, 26):
        epoch(each, 1000 * number, {})
    assert channels(each) == []
    passed = epoch(each, 26_000, {("new@pb/2", "IBM"): 50})
    assert passed["new@pb/2", "IBM"] == 50


def test_a_publisher_that_comes_back_has_no_new_quota() -> None:
    each = limiter()
    for number in range(1, 5):
        epoch(each, 1000 * number, {("feed@pb/1", "IBM"): 200})
    stayed = epoch(each, 5000, {("feed@pb/1", "IBM"): 200})
    each.leave("feed@pb/1")
    returned = epoch(each, 6000, {("feed@pb/1", "IBM"): 200})
    assert returned["feed@pb/1", "IBM"] <= stayed["feed@pb/1", "IBM"] < 200
    # It is there again: nothing is closed under it.
    for number in range(7, 40):
        epoch(each, 1000 * number, {("feed@pb/1", "IBM"): 200})
    assert len(channels(each)) == 1


def test_messages_without_the_attribute_are_a_group_too() -> None:
    each = limiter()
    assert each.admit("feed@pb/1", [BODY], [{"other": 1}], now_ms=0) == 1


def channels(each: Limiter) -> list[Channel]:
    return [channel for channel in each._node.channels if channel is not None]


def test_groups_of_one_publisher_beyond_the_bound_are_one() -> None:
    each = limiter()
    for number in range(1_003):
        assert each.admit("feed@pb/1", [BODY], [{"topic": f"t{number}"}], now_ms=0) == 1
    assert len(channels(each)) == 1_001
    assert channels(each)[-1].group == OTHER_GROUPS
    each.leave("feed@pb/1")
    for number in range(1, 25):
        epoch(each, 1000 * number, {})
    assert channels(each) == []


def test_however_many_publishers_have_however_many_groups_what_is_told_apart_is_bounded() -> None:
    each = limiter()
    for sender in range(12):
        for number in range(1_000):
            each.admit(f"feed@pb/{sender}", [BODY], [{"topic": f"t{number}"}], now_ms=0)
    assert len(channels(each)) <= GROUPS_MAX + 12
    assert channels(each)[-1].group == OTHER_GROUPS


def test_a_group_that_nobody_can_number_any_more_counts_with_the_others() -> None:
    each = limiter()
    for number in range(100_000 - 1):
        each._node.monitor.groups.number(f"heard-{number}")
    assert each.admit("feed@pb/1", [BODY], [{"topic": "new"}], now_ms=0) == 1
    assert [channel.group for channel in channels(each)] == [OTHER_GROUPS]


def test_reports_are_said_in_parts_where_names_are_long() -> None:
    each = limiter()
    each.on_deadline(now_ms=0)
    for number in range(50):
        group = f"{number:03}" + "\U0001f600" * 252
        for sender in range(8):
            each.admit(f"{sender}" + "\U0001f600" * 190, [BODY], [{"topic": group}], now_ms=100)
    said = [answer for answer in each.on_deadline(now_ms=1_000) if isinstance(answer, PublishSystem)]
    reports = [decode(answer.message.payload) for answer in said]
    assert sum(len(report.entries) for report in reports if isinstance(report, Report)) == 50
    assert len(reports) > 1


def test_under_a_hard_limit_a_broker_has_its_share() -> None:
    each = limiter(Aup(limit_bytes_s=10_000, mode="hard", version=1))
    load = {("feed@pb/1", "IBM"): 200}
    passed = [epoch(each, 1000 * number, load)["feed@pb/1", "IBM"] for number in range(1, 7)]
    assert passed[0] == 0
    assert 80 <= passed[-1] <= 100
    assert "has a share of" in each.reason("feed@pb/1", {"topic": "IBM"})[0]


def test_quiet_groups_are_forgotten() -> None:
    each = limiter()
    epoch(each, 1000, {("feed@pb/1", "IBM"): 10})
    for number in range(2, 260):
        each.on_deadline(now_ms=1000 * number)
        each.on_deadline(now_ms=1000 * number + 500)
    assert len(each._tally) == 0
    assert all(channel is None for channel in each._node.channels)


def test_a_clock_that_leaps_makes_one_epoch_longer_and_nothing_else() -> None:
    each = limiter()
    load = {("feed@pb/1", "IBM"): 150}
    for number in range(1, 5):
        epoch(each, 1000 * number, load)
    hour_ms = 3_600_000
    each.on_deadline(now_ms=hour_ms)
    deadline_ms = each.next_deadline()
    assert deadline_ms is not None
    assert hour_ms < deadline_ms <= hour_ms + 1000
    passed = [epoch(each, hour_ms + 1000 * number, load)["feed@pb/1", "IBM"] for number in range(1, 8)]
    assert min(passed) > 0
    assert passed[-1] <= 115


def test_a_clock_that_goes_back_starves_nobody() -> None:
    each = limiter()
    load = {("feed@pb/1", "IBM"): 150}
    hour_ms = 3_600_000
    for number in range(1, 6):
        epoch(each, hour_ms + 1000 * number, load)
    assert each.status().slowed_channels == 1
    # Once in the middle of an epoch, when nothing but a publisher wakes the broker, and once by a deadline.
    each.want("feed@pb/1", [BODY], [{"topic": "IBM"}])
    each.admit("feed@pb/1", [BODY], [{"topic": "IBM"}], now_ms=2_000)
    deadline_ms = each.next_deadline()
    assert deadline_ms is not None
    assert deadline_ms <= 3_500
    each.on_deadline(now_ms=500)
    assert (each.next_deadline() or 0) <= 2_000
    passed = [epoch(each, 4000 + 1000 * number, load)["feed@pb/1", "IBM"] for number in range(1, 8)]
    assert min(passed) > 50
    assert sum(passed[3:]) / 4 <= 115


def test_clocks_that_differ_and_step_leave_the_limit_in_force() -> None:
    clocks_ms = {"pb": 0, "pb2": 1_800_300}
    both = {name: limiter(AUP, name) for name in clocks_ms}
    totals = []
    for number in range(1, 26):
        if number == 10:
            clocks_ms = {"pb": 7_200_000, "pb2": 0}
        total = 0
        for name, each in both.items():
            load = {(f"feed@{name}/1", "IBM"): 100}
            total += epoch(each, clocks_ms[name] + 1000 * number, load)[f"feed@{name}/1", "IBM"]
            share = 100.0 * min(total, 100)
            other = next(other for other in both if other != name)
            tell(both[other], encode(Report(name, 1, (Entry("IBM", share, share / 100, 1, ()),))))
        totals.append(total)
    assert sum(totals[-6:]) / 6 <= 115
    assert min(totals[10:]) >= 50


def test_a_channel_that_had_to_wait_counts_as_waiting_until_the_epoch_is_over() -> None:
    each = limiter()
    epoch(each, 1000, {("feed@pb/1", "IBM"): 50})
    each.on_deadline(now_ms=2000)
    each.want("feed@pb/1", [BODY], [{"topic": "IBM"}])
    each.hold("feed@pb/1", [{"topic": "IBM"}])
    assert each.admit("feed@pb/1", [BODY], [{"topic": "IBM"}], now_ms=2100) == 1
    each.on_deadline(now_ms=3000)
    assert each._seen is not None
    assert each._seen.waiting is not None
    assert each._seen.waiting.tolist() == [True], "it went on, but its publisher has been held back"
    each.on_deadline(now_ms=4000)
    assert each._seen.waiting.tolist() == [False]


def test_a_slowed_channel_is_reported_as_it_sends_on_average() -> None:
    each = limiter()
    epoch(each, 1000, {("feed@pb/1", "IBM"): 10})
    each.on_deadline(now_ms=2000)
    each._node.reactors[0].quota[0] = 130
    each.on_deadline(now_ms=2500)
    each.want("feed@pb/1", [BODY] * 2, [{"topic": "IBM"}] * 2)
    assert each.admit("feed@pb/1", [BODY] * 2, [{"topic": "IBM"}] * 2, now_ms=2950) == 1
    each.on_deadline(now_ms=3000)
    assert each._seen is not None
    assert each._seen.amounts[0].tolist() == [130], "one packet of 100 bytes, and 30 that the next may use"
