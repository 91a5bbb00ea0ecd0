"""Which commits become durable together, what goes ahead of them without space, and what is told of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.commit_queue import (
    GROUP_BYTES_MAX,
    RETRY_MS,
    Ahead,
    CommitQueue,
    Committed,
    Full,
    Group,
    QueueReport,
    Read,
    ValuesKept,
)
from penstock.broker.durable import Append, Change, ForgetPublishers, KeepRecord, SetValue, Trim
from penstock.broker.effects import Commit, ReadKept, ReadLog
from penstock.model.tick import Tick


def append(number: int, size_bytes: int = 4) -> Commit:
    return Commit(number, (Append("p", ((Tick(number), bytes(size_bytes)),)),))


def holding(*commits: Commit) -> CommitQueue:
    queue = CommitQueue()
    for commit in commits:
        queue.put(commit)
    return queue


def next_numbers(queue: CommitQueue, *, now_ms: int = 0) -> list[int]:
    group = queue.begin_next(now_ms=now_ms)
    assert isinstance(group, Group)
    return [commit.number for commit in group.commits]


def next_ahead(queue: CommitQueue, *, now_ms: int = 0) -> Ahead:
    ahead = queue.begin_next(now_ms=now_ms)
    assert isinstance(ahead, Ahead)
    return ahead


def refused(queue: CommitQueue, *, now_ms: int = 0) -> list[QueueReport]:
    """Begin a write, and find no space for it."""
    assert queue.begin_next(now_ms=now_ms) is not None
    return queue.on_full("no space", now_ms=now_ms)


# Groups.


def test_all_commits_that_wait_share_a_group() -> None:
    queue = holding(*map(append, range(1, 11)))
    assert next_numbers(queue) == list(range(1, 11))
    assert len(queue) == 10
    assert queue.on_durable() == [Committed(10, 10, 40)]
    assert (len(queue), queue.next_deadline(), queue.begin_next(now_ms=0)) == (0, None, None)


def test_commits_that_come_while_a_group_is_under_way_are_the_next_one() -> None:
    queue = holding(append(1))
    assert queue.next_deadline() == 0
    assert next_numbers(queue) == [1]
    queue.put(append(2))
    queue.put(append(3))
    assert queue.next_deadline() is None
    assert queue.on_durable() == [Committed(1, 1, 4)]
    assert queue.next_deadline() == 0
    assert next_numbers(queue) == [2, 3]


def test_a_group_is_bounded_in_bytes_of_messages_and_records_unless_it_is_one_commit() -> None:
    half = GROUP_BYTES_MAX // 2
    record = Commit(3, (KeepRecord("r", bytes(half)),))
    queue = holding(
        append(1, half), append(2, half), record, append(4, half), append(5), append(6, GROUP_BYTES_MAX + 1)
    )
    groups = []
    while queue.next_deadline() is not None:
        groups.append(next_numbers(queue))
        queue.on_durable()
    assert groups == [[1, 2], [3, 4], [5], [6]]


def test_a_group_ends_with_the_commit_that_forgets_publishers() -> None:
    queue = holding(append(1), Commit(2, (ForgetPublishers("p", Tick(1)),)), append(3))
    assert next_numbers(queue) == [1, 2]


def test_commits_out_of_order_are_a_mistake() -> None:
    queue = holding(append(3))
    with pytest.raises(AssertionError, match="commit 2 comes after commit 3"):
        queue.put(append(2))


# No space.


def test_of_commits_that_do_not_fit_together_the_first_are_tried_and_a_single_one_waits() -> None:
    queue = holding(*map(append, range(1, 5)))
    assert next_numbers(queue) == [1, 2, 3, 4]
    assert queue.on_full("no space", now_ms=5) == []
    assert next_numbers(queue, now_ms=5) == [1, 2]
    assert queue.on_full("no space", now_ms=6) == []
    assert next_numbers(queue, now_ms=6) == [1]
    assert queue.on_full("no space", now_ms=7) == [Full("no space")]
    assert queue.next_deadline() == 7 + RETRY_MS
    assert queue.begin_next(now_ms=6 + RETRY_MS) is None
    assert next_numbers(queue, now_ms=7 + RETRY_MS) == [1]


def test_the_group_doubles_with_every_one_that_is_durable() -> None:
    queue = holding(*map(append, range(1, 21)))
    while queue.full_reason == "":
        refused(queue)
    sizes = []
    while queue.next_deadline() is not None:
        sizes.append(len(next_numbers(queue, now_ms=RETRY_MS)))
        queue.on_durable()
    assert sizes == [1, 2, 4, 8, 5]


def test_a_lack_of_space_is_reported_once_until_a_group_is_durable() -> None:
    queue = holding(append(1))
    assert refused(queue, now_ms=0) == [Full("no space")]
    assert refused(queue, now_ms=1_000) == []
    assert queue.full_reason == "no space"
    assert next_numbers(queue, now_ms=2_000) == [1]
    assert queue.on_durable() == [Committed(1, 1, 4)]
    assert queue.full_reason == ""
    queue.put(append(2))
    assert refused(queue, now_ms=2_000) == [Full("no space")]


def test_at_the_end_commits_are_tried_once_more_and_nothing_is_read() -> None:
    queue = holding(append(1))
    refused(queue, now_ms=0)
    queue.put_read(ReadKept(1, ()))
    queue.end()
    assert next_numbers(queue, now_ms=1) == [1]
    queue.on_full("no space", now_ms=1)
    assert queue.begin_next(now_ms=1) is None
    assert len(queue) == 1


# What goes ahead.


def test_trims_and_values_go_ahead_and_messages_and_records_do_not() -> None:
    value, other = SetValue("a", b"1"), SetValue("a", None)
    queue = holding(
        Commit(1, (*append(20).changes, value, Trim("q", Tick(5)))),
        Commit(2, (KeepRecord("r", b""), Trim("q", Tick(9)), other)),
    )
    assert refused(queue) == []
    ahead = next_ahead(queue)
    assert ahead.changes() == [Trim("q", Tick(9)), value, other]
    assert len(queue) == 2


def test_no_trim_goes_beyond_messages_that_wait_too() -> None:
    queue = holding(append(20), append(21), Commit(22, (Trim("p", Tick(30)), Trim("q", Tick(30)))))
    refused(queue)
    assert next_ahead(queue).changes() == [Trim("p", Tick(20)), Trim("q", Tick(30))]


def test_a_commit_keeps_its_number_and_all_but_the_values_that_went_ahead() -> None:
    message, trim = append(1).changes[0], Trim("q", Tick(9))
    queue = holding(Commit(7, (message, SetValue("a", b"1"), trim)))
    refused(queue)
    next_ahead(queue)
    assert queue.on_gone_ahead(has_made_room=True, now_ms=0) == [ValuesKept(7)]
    group = queue.begin_next(now_ms=0)
    assert isinstance(group, Group)
    assert group.commits == (Commit(7, (message, trim)),)


def test_values_that_come_while_others_go_ahead_stay_in_their_commits() -> None:
    queue = holding(append(1), Commit(2, (SetValue("a", b"old"),)))
    refused(queue)
    next_ahead(queue)
    newer = Commit(3, (SetValue("a", b"new"),))
    queue.put(newer)
    assert queue.on_gone_ahead(has_made_room=True, now_ms=0) == [ValuesKept(2)]
    group = queue.begin_next(now_ms=0)
    assert isinstance(group, Group)
    assert group.commits == (append(1), Commit(2, ()), newer)[: len(group.commits)]
    queue.on_full("no space", now_ms=0)
    assert next_ahead(queue).values == (SetValue("a", b"new"),)


def test_a_group_for_which_trims_made_room_is_tried_again_as_it_was() -> None:
    queue = holding(append(1), append(2), Commit(3, (Trim("q", Tick(9)),)))
    refused(queue, now_ms=5)
    next_ahead(queue)
    assert queue.on_gone_ahead(has_made_room=True, now_ms=6) == []
    assert next_numbers(queue, now_ms=6) == [1, 2, 3]


def test_a_group_is_halved_if_what_went_ahead_made_no_room() -> None:
    queue = holding(append(1), append(2), Commit(3, (SetValue("a", b"1"),)))
    refused(queue)
    next_ahead(queue)
    assert queue.on_gone_ahead(has_made_room=False, now_ms=0) == [ValuesKept(3)]
    assert next_numbers(queue) == [1]
    assert queue.on_full("no space", now_ms=9) == [Full("no space")]
    assert queue.next_deadline() == 9 + RETRY_MS


def test_values_stay_in_their_commits_if_there_is_no_space_even_for_them() -> None:
    commit = Commit(1, (*append(1).changes, SetValue("a", b"1")))
    queue = holding(commit)
    refused(queue)
    next_ahead(queue)
    assert queue.on_full("not even for values", now_ms=3) == [Full("no space")]
    assert queue.next_deadline() == 3 + RETRY_MS
    group = queue.begin_next(now_ms=3 + RETRY_MS)
    assert isinstance(group, Group)
    assert group.commits == (commit,)


@pytest.mark.parametrize(
    ("change", "deadline_ms"),
    [
        (Trim("p", Tick(1)), 0),
        (SetValue("a", None), 0),
        (KeepRecord("r", b""), RETRY_MS),
        (ForgetPublishers("p", Tick(1)), RETRY_MS),
        (append(2).changes[0], RETRY_MS),
    ],
)
def test_only_trims_and_values_end_the_wait_for_space(change: Change, deadline_ms: int) -> None:
    queue = holding(append(1))
    refused(queue)
    queue.put(Commit(2, (change,)))
    assert queue.next_deadline() == deadline_ms


def test_a_trim_that_comes_while_others_go_ahead_does_not_wait_either() -> None:
    queue = holding(append(1), Commit(2, (Trim("p", Tick(1)),)))
    refused(queue)
    next_ahead(queue)
    queue.on_gone_ahead(has_made_room=False, now_ms=0)
    refused(queue)
    next_ahead(queue)
    queue.put(Commit(3, (Trim("q", Tick(9)),)))
    assert queue.on_gone_ahead(has_made_room=False, now_ms=0) == [Full("no space")]
    assert queue.next_deadline() == 0


# Reads.


def test_reads_and_commits_take_turns() -> None:
    queue = CommitQueue()
    forgets = ForgetPublishers("p", Tick(0))
    reads: list[Read] = [ReadLog(1, "p", 1, 2, 10), ReadKept(2, ("r",)), ReadKept(3, ())]
    for number, read in enumerate(reads, start=1):
        queue.put(Commit(number, (forgets,)))
        queue.put_read(read)
    done: list[object] = []
    while queue.next_deadline() is not None:
        work = queue.begin_next(now_ms=0)
        if isinstance(work, Group):
            done += [commit.number for commit in work.commits]
            queue.on_durable()
        else:
            done.append(work)
            queue.on_read()
    assert done == [1, reads[0], 2, reads[1], 3, reads[2]]


def test_a_read_does_not_wait_for_space_and_commits_do_not_wait_for_a_late_read() -> None:
    queue = holding(append(1))
    refused(queue, now_ms=0)
    read = ReadKept(1, ())
    queue.put_read(read)
    assert queue.next_deadline() == 0
    assert queue.begin_next(now_ms=400) == read
    queue.on_read_late(now_ms=400)
    assert queue.next_deadline() == RETRY_MS
    assert next_numbers(queue, now_ms=RETRY_MS) == [1]
    queue.on_durable()
    assert queue.next_deadline() == 400 + RETRY_MS
    assert queue.begin_next(now_ms=399 + RETRY_MS) is None
    assert queue.begin_next(now_ms=400 + RETRY_MS) == read
    queue.on_read()
    assert queue.next_deadline() is None


def test_a_read_that_is_late_is_not_overtaken() -> None:
    queue = CommitQueue()
    queue.put_read(ReadKept(1, ()))
    queue.put_read(ReadKept(2, ()))
    queue.begin_next(now_ms=0)
    queue.on_read_late(now_ms=0)
    assert queue.begin_next(now_ms=RETRY_MS) == ReadKept(1, ())


# Whatever happens.


class Ledger:
    """A store that knows which commit each of its values is from, and has space or not."""

    def __init__(self) -> None:
        self.queue = CommitQueue()
        self.commits: list[Commit] = []
        self.messages: list[int] = []
        self.values: dict[str, int] = {}
        self.reported = 0

    def put(self, name: str | None) -> None:
        number = len(self.commits) + 1
        commit = append(number) if name is None else Commit(number, (SetValue(name, b"%d" % number),))
        self.commits.append(commit)
        self.queue.put(commit)

    def begin(self, now_ms: int) -> None:
        if self.queue.under_way is None:
            self.queue.begin_next(now_ms=now_ms)

    def end(self, now_ms: int, *, has_space: bool) -> None:
        write = self.queue.under_way
        if not isinstance(write, Group | Ahead):
            return
        is_small = not any(isinstance(each, Append) for each in write.changes())
        if not has_space and not is_small:
            reports = self.queue.on_full("no space", now_ms=now_ms)
        else:
            self.apply(write.changes())
            is_ahead = isinstance(write, Ahead)
            reports = (
                self.queue.on_gone_ahead(has_made_room=False, now_ms=now_ms) if is_ahead else self.queue.on_durable()
            )
        for report in reports:
            self.check(report)

    def apply(self, changes: list[Change]) -> None:
        for change in changes:
            if isinstance(change, Append):
                self.messages += [tick for tick, _ in change.messages]
            elif isinstance(change, SetValue):
                assert change.value is not None
                number = int(change.value)
                assert number > self.values.get(change.name, 0), f"{change} replaces a newer one, or comes twice"
                self.values[change.name] = number

    def check(self, report: QueueReport) -> None:
        """What is said to be durable is."""
        if isinstance(report, Full):
            return
        durable = [change for commit in self.commits[: report.number] for change in commit.changes]
        for change in durable:
            if isinstance(change, SetValue):
                assert self.values.get(change.name, 0) >= int(change.value or b"0"), f"{change} is not durable"
            elif isinstance(report, Committed):
                assert isinstance(change, Append)
                assert change.messages[0][0] in self.messages
        if isinstance(report, Committed):
            assert report.number == self.reported + report.commits
            self.reported = report.number


steps = st.sampled_from(("message", "a", "b", "begin", "durable", "full"))


@given(st.lists(steps, max_size=60))
def test_all_becomes_durable_once_and_in_order_however_long_there_is_no_space(script: list[str]) -> None:
    ledger = Ledger()
    for now_ms, step in enumerate(script):
        match step:
            case "message" | "a" | "b":
                ledger.put(None if step == "message" else step)
            case "begin":
                ledger.begin(now_ms * RETRY_MS)
            case _:
                ledger.end(now_ms * RETRY_MS, has_space=step == "durable")
    now_ms = len(script) * RETRY_MS
    while len(ledger.queue):
        now_ms += RETRY_MS
        ledger.begin(now_ms)
        ledger.end(now_ms, has_space=True)
    assert ledger.reported == len(ledger.commits)
    assert ledger.messages == [each.number for each in ledger.commits if isinstance(each.changes[0], Append)]
