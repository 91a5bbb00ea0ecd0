"""How pubends begin: when others have answered, and not before what is lost is marked."""

from __future__ import annotations

from penstock.broker.commits import Commits
from penstock.broker.durable import MarkLost, RecoveredPubend
from penstock.broker.effects import Commit
from penstock.broker.pubend.beginnings import Beginnings
from penstock.broker.pubend.log import PubendLog
from penstock.broker.rooms import Rooms
from penstock.broker.settings import BrokerSettings
from penstock.protocol import frames as f

NOW_MS = 1_000_000
OLD = RecoveredPubend(lease=80, last_tick=50)


class Born:
    """A broker with one neighbour and one pubend, which has messages up to tick 50, and a lease up to 80."""

    def __init__(self, *, neighbours: tuple[str, ...] = ("a",), former: RecoveredPubend | None = OLD) -> None:
        settings = BrokerSettings("pb", pubends=("p",), neighbours=neighbours, inquiry_ms=3_000)
        self.rooms = Rooms(settings, incarnation=7)
        self.commits = Commits()
        self.log = PubendLog("p", settings, former)
        self.beginnings = Beginnings(self.rooms, {"p": self.log}, self.commits)
        self.beginnings.start(now_ms=NOW_MS)

    def link(self) -> None:
        peer = self.rooms.connections.open(1, dialled="a", certificate="", now_ms=NOW_MS)
        peer.name = "a"
        self.rooms.connections.link_up(peer)
        self.rooms.topology.neighbour_up("a")
        self.rooms.topology.learn(f.LinkState("a", 1, 1, ("pb",)))

    def answer(self, heard: int, message: int) -> None:
        marks = (("p", heard, message),)
        self.beginnings.on_remembered(f.Remembered("pb", "a", 7, marks), now_ms=NOW_MS)

    def look(self, after_ms: int = 0) -> list[PubendLog]:
        return self.beginnings.look(now_ms=NOW_MS + after_ms)

    def commit(self) -> Commit | None:
        return self.commits.take()


def test_alone_a_pubend_begins_at_once() -> None:
    born = Born(neighbours=())
    assert not born.beginnings.waits("p")
    assert (born.look(), born.beginnings.take_begun(), born.beginnings.take_known()) == ([], False, None)


def test_with_a_neighbour_it_waits_and_says_why() -> None:
    born = Born()
    why = "pubend p asks other brokers what they remember of it"
    assert born.beginnings.waits("p")
    assert not born.beginnings.waits("elsewhere")
    assert (born.beginnings.why_waits("p"), born.beginnings.why_some_wait()) == (why, why)
    assert born.look(2_999) == []
    assert born.look(3_000) == [born.log]
    assert (born.beginnings.why_waits("p"), born.beginnings.why_some_wait()) == ("", "")
    assert (born.beginnings.take_begun(), born.beginnings.take_begun()) == (True, False)


def test_it_begins_when_everybody_has_answered_that_nothing_is_missing() -> None:
    born = Born()
    born.link()
    born.answer(80, 50)
    assert born.look() == [born.log]
    assert born.beginnings.lost == {}


def test_what_is_missing_is_marked_durably_before_it_begins() -> None:
    born = Born()
    born.link()
    born.answer(90, 60)
    assert born.look() == []
    assert born.beginnings.waits("p")
    commit = born.commit()
    assert commit is not None
    (mark,) = [change for change in commit.changes if isinstance(change, MarkLost)]
    assert (mark.ticks, mark.ticks.first) == (born.beginnings.lost["p"], 51)
    assert mark.ticks.last >= 90
    assert born.beginnings.on_committed(commit.number - 1) == []
    assert born.beginnings.on_committed(commit.number) == [born.log]
    assert born.beginnings.on_committed(commit.number) == []
    assert born.beginnings.counts["history_lost"] == 1


def test_an_empty_store_begins_at_once_above_what_others_have_heard() -> None:
    born = Born(former=None)
    born.link()
    born.answer(90, 60)
    assert born.look() == [born.log]
    assert born.log.promised > 90
    assert born.beginnings.lost["p"].first == 1


def test_what_is_remembered_too_late_is_counted_and_told() -> None:
    born = Born()
    born.look(3_000)
    born.beginnings.take_known()
    born.answer(2**60, 60)
    assert born.beginnings.counts["memory_implausible"] == 1
    born.answer(90, 60)
    assert born.beginnings.counts["history_lost_late"] == 1
    state = born.beginnings.take_known()
    assert state is not None
    assert state.known == (("p", 90, 90),)
