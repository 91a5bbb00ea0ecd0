from __future__ import annotations

from penstock.tracking.aliases import AliasBook
from penstock.tracking.attachment import AttachmentMap
from penstock.tracking.keys import HistoryKey, Phase
from penstock.tracking.recorder import Recorder
from penstock.tracking.records import Keep
from penstock.tracking.recovery import recover
from penstock.tracking.settings import TrackingSettings
from tracking.ids import joined, make_id, make_ids

ROUTE = HistoryKey(Phase.ROUTE, 2)


class Life:
    """One life of a broker's tracking, on values that outlive it."""

    def __init__(self, values: dict[str, bytes], *, now_ms: int) -> None:
        self.values = values
        self.recorder = Recorder(1, TrackingSettings(), now_ms=now_ms)
        self.attachments, self.aliases = AttachmentMap(), AliasBook()
        self.damaged, keeps = recover(values, self.recorder, self.attachments, self.aliases, now_ms=now_ms)
        self.store(keeps)

    def store(self, keeps: list[Keep]) -> None:
        for keep in (*keeps, *self.recorder.take()):
            if keep.value is not None:
                self.values[keep.name] = keep.value


def test_a_life_takes_up_where_the_last_one_stopped() -> None:
    values: dict[str, bytes] = {}
    first = Life(values, now_ms=1_000)
    number, keeps = first.attachments.attach("alice", {"p": 1_000 << 16}, now_ms=1_000)
    keeps += first.aliases.record(make_id(1_500), "b3", 3, now_ms=1_600)
    first.recorder.record_routed(2, joined(make_ids(2_000, 10)), now_ms=2_000)
    keeps += first.attachments.detach(number, {}, now_ms=2_500)
    first.recorder.stop(now_ms=3_000)
    first.store(keeps)
    second = Life(values, now_ms=5_000)
    assert second.damaged == []
    assert second.attachments.covering(2_000, 2_000) == ["alice"]
    assert second.aliases.record_of(make_id(1_500)) is not None
    matching = second.recorder.matching(ROUTE, 2_005, now_ms=5_000)
    assert (len(matching.memory), matching.gaps, matching.is_known) == (1, [], True)


def test_a_crash_reaches_back_to_where_newcomers_began_and_ends_attachments() -> None:
    values: dict[str, bytes] = {}
    first = Life(values, now_ms=100_000)
    _, keeps = first.attachments.attach("late", {"p": 40_000 << 16}, now_ms=100_500)
    first.store(keeps)
    second = Life(values, now_ms=105_000)
    assert second.recorder.matching(ROUTE, 40_000, now_ms=105_000).gaps != []
    assert second.recorder.matching(ROUTE, 39_000, now_ms=105_000).gaps == []
    assert second.attachments.covering(105_000, 105_000) == ["late"]
    assert second.attachments.covering(105_001, 105_001) == []
    assert Life(values, now_ms=106_000).attachments.covering(105_001, 105_001) == []


def test_damage_makes_the_past_uncertain() -> None:
    values: dict[str, bytes] = {}
    first = Life(values, now_ms=1_000)
    _, keeps = first.attachments.attach("alice", {}, now_ms=1_000)
    keeps += first.aliases.record(make_id(1_500), "b3", 3, now_ms=1_600)
    first.store(keeps)
    broken = [name for name in values if name.startswith(("attachment/", "alias/")) or name == "mark"]
    values.update({name: values[name][:-1] for name in broken})
    second = Life(values, now_ms=9_000)
    assert sorted(second.damaged) == sorted(broken)
    assert (second.attachments.known_since_ms, second.aliases.known_since_ms) == (9_000, 9_000)
    assert second.recorder.matching(ROUTE, 1_200, now_ms=9_000).gaps != []
