"""A pubend's ticks and promises: under a durable lease, said only when durable, repetitions recognised."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from penstock.broker.durable import Append, RecoveredPubend
from penstock.broker.pubend.log import PubendLog
from penstock.broker.settings import BrokerSettings
from penstock.model.tick import tick_at
from penstock.model.values import AttributeValue
from penstock.streams import Knowledge
from strategies import tries

NOW_MS = 1_000_000
SETTINGS = BrokerSettings("pb", pubends=("p",), lease_ms=5_000, silence_ms=1_000)


class Shell:
    """Gives a pubend's changes numbers, and makes them durable when it is told to."""

    def __init__(self, recovered: RecoveredPubend | None = None, now_ms: int = NOW_MS) -> None:
        self.log = PubendLog("p", SETTINGS, recovered)
        self.now_ms = now_ms
        self.commits = 0
        self.changes: list[Append] = []
        self.lease = (recovered.lease or 0) if recovered else 0

    def publish(self, *bodies: bytes, first: int = 1, publisher: bytes = b"", may_jump: bool = False) -> Append | None:
        decoded: list[dict[str, AttributeValue]] = [{} for _ in bodies]
        change = self.log.publish(publisher, first, list(bodies), decoded, may_jump=may_jump, now_ms=self.now_ms)
        return self.append(change)

    def renew(self) -> Append | None:
        return self.append(self.log.renewal(now_ms=self.now_ms))

    def append(self, change: Append | None) -> Append | None:
        if change is not None:
            self.commits += 1
            self.changes.append(change)
            self.log.on_appended(change, self.commits)
        return change

    def commit(self) -> Knowledge | None:
        self.lease = max([self.lease, *(each.lease for each in self.changes if each.lease is not None)])
        return self.log.on_committed(self.commits, now_ms=self.now_ms)

    def silence(self, after_ms: int = 1_000) -> Knowledge | None:
        self.now_ms += after_ms
        return self.log.silence(now_ms=self.now_ms)


def ticks_of(change: Append | None) -> list[int]:
    assert change is not None
    return [tick for tick, _ in change.messages]


def test_messages_get_ticks_from_the_clock_on_and_a_lease_beyond_them() -> None:
    shell = Shell()
    change = shell.publish(b"x", b"y")
    assert ticks_of(change) == [tick_at(NOW_MS), tick_at(NOW_MS) + 1]
    assert change is not None
    assert change.lease == tick_at(NOW_MS + 5_000)
    shell.now_ms += 3
    assert ticks_of(shell.publish(b"z", first=3)) == [tick_at(NOW_MS + 3)]


def test_nothing_is_said_before_it_is_durable() -> None:
    shell = Shell()
    shell.publish(b"x")
    assert shell.silence() is None or shell.log.promised < tick_at(NOW_MS)
    spoken = shell.commit()
    assert spoken is not None
    assert (spoken.ticks, spoken.bodies, spoken.last) == ([tick_at(NOW_MS)], [b"x"], tick_at(NOW_MS))


def test_silence_ends_before_what_is_not_durable() -> None:
    shell = Shell()
    shell.renew()
    shell.commit()
    shell.now_ms += 500
    shell.publish(b"x")
    spoken = shell.silence()
    assert spoken is not None
    assert (spoken.last, spoken.ticks) == (tick_at(NOW_MS + 500) - 1, ())
    assert shell.silence() == Knowledge("p", spoken.last, spoken.last), "who missed it must hear of it"


def test_commits_are_spoken_of_in_order_and_without_a_hole_between() -> None:
    shell = Shell()
    shell.publish(b"x")
    shell.now_ms += 1
    shell.publish(b"y", first=2)
    first = shell.log.on_committed(1, now_ms=shell.now_ms)
    second = shell.log.on_committed(2, now_ms=shell.now_ms)
    assert first is not None
    assert second is not None
    assert (first.bodies, second.bodies) == ([b"x"], [b"y"])
    assert second.first == first.last + 1


def test_no_silence_beyond_a_durable_lease() -> None:
    shell = Shell()
    assert shell.silence() is None
    shell.renew()
    assert shell.silence() is None
    shell.commit()
    spoken = shell.silence(30_000)
    assert spoken is not None
    assert spoken.last == shell.lease
    assert shell.silence(30_000) == Knowledge("p", shell.lease, shell.lease)


def test_behind_the_last_message_there_is_silence_to_be_said_again_however_quickly_the_next_one_came() -> None:
    shell = Shell()
    shell.publish(b"x")
    shell.publish(b"y", first=2)
    said = shell.log.on_committed(1, now_ms=shell.now_ms)
    assert said is not None
    assert (said.bodies, said.last) == ([b"x"], said.ticks[-1])
    spoken, again = shell.silence(), shell.silence()
    assert spoken == again == Knowledge("p", said.last + 1, said.last + 1)
    assert shell.log.promised == said.last + 1


def test_a_lease_is_renewed_when_half_of_it_has_passed() -> None:
    shell = Shell()
    assert shell.renew() is not None
    shell.now_ms += 2_000
    assert shell.renew() is None
    shell.now_ms += 1_000
    change = shell.renew()
    assert change is not None
    assert change.lease == tick_at(NOW_MS + 8_000)


def test_silence_is_said_once_a_second_and_not_right_after_data() -> None:
    shell = Shell()
    shell.renew()
    shell.commit()
    assert shell.silence() is not None
    assert shell.silence(999) is None
    spoken = shell.silence(1)
    assert spoken is not None
    assert (spoken.first, spoken.last) == (tick_at(NOW_MS + 1_000), tick_at(NOW_MS + 2_000) - 1)
    shell.now_ms += 500
    shell.publish(b"x")
    shell.commit()
    assert shell.log.next_deadline() == NOW_MS + 3_500
    assert shell.silence(999) is None


def test_a_restart_begins_above_the_lease_of_the_former_life() -> None:
    lease = tick_at(NOW_MS + 4_000)
    shell = Shell(RecoveredPubend(lease=lease, last_tick=tick_at(NOW_MS)))
    assert ticks_of(shell.publish(b"x"))[0] > lease
    shell = Shell(RecoveredPubend(lease=lease, last_tick=tick_at(NOW_MS)), now_ms=NOW_MS + 60_000)
    assert ticks_of(shell.publish(b"x")) == [tick_at(NOW_MS + 60_000)]


def test_a_restart_says_again_what_the_former_life_may_have_promised() -> None:
    lease, last = tick_at(NOW_MS + 4_000), tick_at(NOW_MS)
    shell = Shell(RecoveredPubend(lease=lease, last_tick=last))
    spoken = shell.silence(60_000)
    assert spoken is not None
    assert (spoken.first, spoken.last) == (last + 1, lease)


def test_a_restart_whose_log_was_trimmed_does_not_go_below() -> None:
    shell = Shell(RecoveredPubend(trimmed_below=tick_at(NOW_MS + 9_000)))
    assert ticks_of(shell.publish(b"x"))[0] >= tick_at(NOW_MS + 9_000)


def test_a_clock_that_was_set_back_before_a_restart_neither_stops_nor_turns_the_stream() -> None:
    shell = Shell(RecoveredPubend(lease=tick_at(NOW_MS + 4_000)), now_ms=NOW_MS - 3_600_000)
    first = ticks_of(shell.publish(b"x"))
    shell.commit()
    shell.now_ms += 1_000
    second = ticks_of(shell.publish(b"y", first=2))
    assert first[0] > tick_at(NOW_MS + 4_000)
    assert 850 <= (second[0] >> 16) - (first[0] >> 16) <= 1_000


def test_a_stream_ahead_of_the_clock_slews_until_they_agree() -> None:
    shell = Shell(RecoveredPubend(lease=tick_at(NOW_MS + 999)))
    ahead_ms = [shell.log.stream_ms(now_ms) - now_ms for now_ms in range(NOW_MS, NOW_MS + 30_000, 7)]
    assert ahead_ms[0] == 1_000
    assert ahead_ms[-1] == 0
    assert ahead_ms == sorted(ahead_ms, reverse=True)
    assert 8_000 < 7 * ahead_ms.index(0) < 16_000


def test_a_clock_that_is_set_back_in_the_midst_never_repeats_a_tick() -> None:
    shell = Shell()
    first = ticks_of(shell.publish(b"x"))
    shell.now_ms -= 10_000
    second = ticks_of(shell.publish(b"y", first=2))
    assert second[0] > first[0]


def test_a_repeated_batch_is_recognised_and_needs_nothing() -> None:
    shell = Shell()
    shell.publish(b"x", b"y", publisher=b"me")
    assert shell.publish(b"x", b"y", publisher=b"me") is None
    assert shell.log.repeated == 2
    assert shell.log.last_commit == 1


def test_of_a_batch_that_was_sent_in_part_only_the_rest_is_new() -> None:
    shell = Shell()
    shell.publish(b"x", b"y", publisher=b"me")
    change = shell.publish(b"y", b"z", first=2, publisher=b"me")
    assert change is not None
    assert [body for _, body in change.messages] == [b"z"]
    assert change.sequences == {b"me": 3}


def test_publishers_are_told_apart_and_who_has_no_name_is_never_recognised() -> None:
    shell = Shell()
    assert shell.publish(b"x", publisher=b"me") is not None
    assert shell.publish(b"x", publisher=b"you") is not None
    assert shell.publish(b"x") is not None
    change = shell.publish(b"x")
    assert change is not None
    assert change.sequences == {}


def test_repetitions_are_recognised_after_a_restart() -> None:
    shell = Shell(RecoveredPubend(sequences={b"me": 5}))
    assert shell.publish(b"x", first=5, publisher=b"me") is None
    change = shell.publish(b"x", b"y", first=5, publisher=b"me")
    assert change is not None
    assert [body for _, body in change.messages] == [b"y"]


def test_the_size_follows_what_is_appended_and_trimmed() -> None:
    shell = Shell()
    change = shell.publish(*[bytes(10_000)] * 10)
    assert shell.log.size_bytes == 100_000
    shell.now_ms += 1
    shell.publish(bytes(50_000), first=11)
    assert shell.log.tick_keeping(200_000) == 0
    below = shell.log.tick_keeping(50_000)
    assert ticks_of(change)[-1] < below <= tick_at(NOW_MS + 1)
    shell.log.trim(below)
    assert shell.log.size_bytes == 50_000
    assert shell.log.trimmed_below == below
    shell.log.trim(below - 5)
    assert shell.log.trimmed_below == below
    shell.log.check_invariants()


def test_the_size_of_a_former_life_counts() -> None:
    shell = Shell(RecoveredPubend(last_tick=tick_at(NOW_MS), parts=((tick_at(NOW_MS), 700),)))
    shell.publish(bytes(50))
    assert shell.log.size_bytes == 750
    shell.log.check_invariants()


def test_a_former_life_is_trimmed_by_where_its_bytes_are() -> None:
    parts = ((1_000, 60_000), (1_001, 60_000), (1_002, 60_000), (2_000_000, 12_000))
    log = Shell(RecoveredPubend(last_tick=2_000_000, first_tick=1, parts=parts)).log
    assert log.tick_keeping(132_001) == 0
    assert log.tick_keeping(132_000) == 1_001
    assert log.tick_keeping(12_000) == 1_003
    log.trim(1_001)
    assert log.size_bytes == 132_000
    log.check_invariants()


steps = st.lists(
    st.tuples(st.sampled_from(["publish", "renew", "commit", "silence", "crash"]), st.integers(-2_000, 4_000)),
    max_size=40,
)


@examples(max_examples=tries(200))
@given(steps)
def test_whatever_happens_ticks_grow_and_promises_are_kept(happenings: list[tuple[str, int]]) -> None:
    shell, durable = Shell(), 0
    given_out: list[int] = []
    promised = 0
    for what, step_ms in happenings:
        shell.now_ms += step_ms
        spoken = None
        if what == "publish":
            given_out += ticks_of(shell.publish(b"x", b"y", first=1))
            assert given_out[-2] > promised, "what was promised to be silent stays so"
        elif what == "renew":
            shell.renew()
        elif what == "commit":
            spoken, durable = shell.commit(), len(shell.changes)
        elif what == "silence":
            spoken = shell.log.silence(now_ms=shell.now_ms)
        else:
            kept = [tick for each in shell.changes[:durable] for tick, _ in each.messages]
            leases = [each.lease for each in shell.changes[:durable] if each.lease is not None]
            now_ms, before = shell.now_ms, shell.changes[:durable]
            given_out = [tick for tick in given_out if tick <= max([*leases, *kept], default=0)]
            shell = Shell(RecoveredPubend(max(leases, default=None), max(kept, default=None)), now_ms=now_ms)
            shell.changes = before
        if spoken is not None:
            assert spoken.first <= promised + 1
            assert spoken.last <= max([shell.lease, *spoken.ticks]), "no silence beyond a durable lease"
            promised = max(promised, spoken.last)
        assert given_out == sorted(set(given_out))
        shell.log.check_invariants()


def test_only_the_next_number_of_a_known_publisher_is_taken() -> None:
    shell = Shell()
    shell.publish(b"a", b"b", publisher=b"me")
    with pytest.raises(AssertionError, match="message 4 of a publisher to p follows message 2"):
        shell.publish(b"d", first=4, publisher=b"me")
    change = shell.publish(b"c", first=3, publisher=b"me")
    assert change is not None
    assert change.sequences == {b"me": 3}
    assert shell.log.jumped == 0


def test_a_publisher_that_begins_anew_may_skip_numbers_since_it_knows_that_they_are_settled() -> None:
    shell = Shell()
    shell.publish(b"a", publisher=b"me")
    assert shell.publish(b"e", first=5, publisher=b"me", may_jump=True) is not None
    assert shell.log.jumped == 1
    assert shell.publish(b"z", first=9, publisher=b"you", may_jump=True) is not None
    assert shell.log.jumped == 1, "nothing was known of this one"
    assert shell.publish(b"e", first=5, publisher=b"me", may_jump=True) is None
    assert shell.log.repeated == 1


def test_messages_from_a_tick_on_are_counted_and_estimated_where_they_are_older_than_this_life() -> None:
    shell = Shell()
    shell.log.begin(now_ms=NOW_MS)
    assert shell.log.messages_from(0) == (0, True)
    shell.publish(b"a" * 10, b"b" * 10, b"c" * 10)
    shell.publish(b"d" * 10)
    first = shell.changes[0].messages[0][0]
    assert shell.log.messages_from(0) == (4, True)
    assert shell.log.messages_from(first + 1) == (3, True)
    assert shell.log.messages_from(first + 3) == (1, True)
    assert shell.log.messages_from(shell.log.last_tick + 1) == (0, True)
    assert shell.log.bytes_from(0) == 40
    assert shell.log.bytes_from(shell.log.last_tick + 1) == 0
    old = tick_at(NOW_MS - 1_000)
    again = Shell(RecoveredPubend(last_tick=old, first_tick=1, parts=((old, 2_560),)))
    assert again.log.messages_from(0) == (10, False)
    again.publish(b"e")
    assert again.log.messages_from(old + 1) == (1, True)


# --- a new life that asks others first

OLD = RecoveredPubend(lease=tick_at(NOW_MS), last_tick=tick_at(NOW_MS - 5_000))


def test_a_log_that_waits_knows_nothing_beyond_its_last_message() -> None:
    shell = Shell(OLD)
    shell.log.wait()
    assert shell.log.promised == OLD.last_tick
    assert shell.silence(60_000) is None
    assert shell.log.begin(now_ms=shell.now_ms) is None
    assert (shell.log.promised, shell.log.has_lost) == (OLD.lease, False)
    shell.renew()
    spoken = shell.commit() or shell.silence()
    assert spoken is not None
    assert OLD.last_tick is not None
    assert spoken.first == OLD.last_tick + 1


@pytest.mark.parametrize("heard", [tick_at(NOW_MS + 9_000), 5])
def test_what_is_lost_reaches_from_the_last_message_to_the_present_or_what_others_have_heard(heard: int) -> None:
    shell = Shell(OLD)
    shell.log.wait()
    change = shell.log.mark_lost(heard, now_ms=NOW_MS)
    assert OLD.last_tick is not None
    # And a lease beyond: up to there messages may lie that nobody has heard of.
    assert change.ticks == (OLD.last_tick + 1, max(heard + tick_at(5_000), tick_at(NOW_MS)))
    shell.log.begin_after(change.ticks)
    assert shell.log.has_lost
    published = shell.publish(b"x")
    assert ticks_of(published)[0] > change.ticks.last
    spoken = shell.commit()
    assert spoken is not None
    assert spoken.first == change.ticks.last + 1
    shell.log.check_invariants()


def test_a_new_log_begins_above_what_others_have_heard() -> None:
    shell = Shell()
    shell.log.wait()
    heard = tick_at(NOW_MS + 9_000)
    birth = shell.log.begin(heard=heard, now_ms=NOW_MS)
    assert birth is not None
    assert birth.below_tick == heard + tick_at(5_000) + 1
    assert ticks_of(shell.publish(b"x"))[0] > heard


def test_ticks_that_somebody_remembers_too_late_are_not_used_again() -> None:
    shell = Shell()
    shell.log.begin(now_ms=NOW_MS)
    heard = tick_at(NOW_MS + 9_000)
    shell.log.skip_to(heard)
    assert ticks_of(shell.publish(b"x")) == [heard + 1]
    shell.log.check_invariants()
