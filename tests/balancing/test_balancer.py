"""The balancer of an edge: driven by values, through whole sessions, and by partners that misbehave."""

from __future__ import annotations

from typing import Any

import pytest

from balancing.model import Model, ModelHost
from penstock.balancing.balancer import Balancer, Trails
from penstock.balancing.estimators import Figures
from penstock.balancing.mediation import Phase
from penstock.balancing.messages import Done, End, Letter, Moving, Reply, Request, Watch
from penstock.balancing.metrics import Load
from penstock.balancing.pie import Pie
from penstock.balancing.ports import Note, Publish
from penstock.balancing.settings import BalancingSettings
from penstock.balancing.states import State
from penstock.model.metrics import BALANCED
from penstock.protocol.status import DecisionStatus

SETTINGS = BalancingSettings(is_on=True, detection_ms=1_000, pie_ms=2_000, peer_ms=10_000, smoothing_ms=3_000)


def pair(count: int, **changes: Any) -> Model:
    """Two equal edges; all subscribers are at the first one."""
    settings = BalancingSettings(
        **{each: getattr(SETTINGS, each) for each in BalancingSettings.__dataclass_fields__} | changes
    )
    model = Model({"h": {"a": 1.0, "b": 1.0}}, settings=settings)
    for each in model.subscribers(count):
        model.hosts["a"].add(each)
    return model


def letters_of(model: Model, kind: str) -> list[Publish]:
    return [each for each in model.published if each.attributes.get("$kind") == kind]


def test_two_edges_share_what_one_had() -> None:
    model = pair(120)
    model.run(120)
    assert len(model.hosts["a"].clients) + len(model.hosts["b"].clients) == 120
    assert all(model.spread(metric) <= 0.1 for metric in BALANCED)
    assert model.returns() == 0
    assert len(letters_of(model, "done")) >= 1
    states = {balancer.standing.state for balancer in model.edges.values()}
    assert states <= {State.OK, State.STABILIZING}


def test_an_overloaded_edge_is_relieved() -> None:
    model = pair(260)
    assert model.load("a").input > 0.95
    model.run(60)
    assert model.load("a").highest() < 0.95
    assert dict(model.notes[0].fields)["metric"] == "delay"


def test_sessions_and_report_cards_are_visible() -> None:
    model = pair(120)
    model.run(60)
    events = [note.event for note in model.notes]
    assert "balancing-offloads" in events
    assert "balancing-card" in events
    assert "balancing-ended" in events
    status = model.edges["a"].status()
    assert isinstance(status.last, DecisionStatus)
    assert status.last.partner == "b"
    assert isinstance(status.last.cards, list)
    assert status.last.cards
    assert status.counts["sessions"] >= 1


def test_estimates_are_compared_with_what_came_of_them() -> None:
    model = pair(120)
    model.run(120)
    estimates = [each for balancer in model.edges.values() for each in balancer.estimates]
    assert {each.is_offloader for each in estimates} == {True, False}
    assert all(each.estimated.is_finite() for each in estimates)
    assert all(0 < each.made_ms <= each.at_ms - BalancingSettings().stabilize_ms for each in estimates)


# --- partners that misbehave


class Alone:
    """A balancer whose partner is whoever the test plays."""

    def __init__(self) -> None:
        self.model = Model({"h": {"a": 1.0}}, settings=SETTINGS)
        for each in self.model.subscribers(100):
            self.model.hosts["a"].add(each)
        self.balancer: Balancer = self.model.edges["a"]
        self.host: ModelHost = self.model.hosts["a"]

    def state(self) -> State:
        return self.balancer.standing.state

    def has_session(self) -> bool:
        return self.balancer.session is not None

    def run(self, seconds: int) -> list[Publish]:
        before = len(self.model.published)
        self.model.run(seconds)
        return self.model.published[before:]

    def pie(self, name: str = "b", load: Load | None = None, **changes: Any) -> None:
        attributes = {**Pie(name, "h", State.OK, load or Load()).attributes(), **changes}
        self.model.carry_out(self.balancer.on_publication(attributes, b"", now_ms=self.model.now_ms))

    def send(self, letter: Letter) -> list[Publish]:
        before = len(self.model.published)
        commands = self.balancer.on_publication(letter.attributes(), letter.payload(), now_ms=self.model.now_ms)
        self.model.carry_out(commands)
        return self.model.published[before:]

    def publish(self, noise: Publish) -> list[Publish]:
        before = len(self.model.published)
        self.model.carry_out(self.balancer.on_publication(noise.attributes, noise.payload, now_ms=self.model.now_ms))
        return self.model.published[before:]

    def until_asked(self) -> Publish:
        for _ in range(30):
            self.pie()
            asked = [each for each in self.run(1) if each.attributes.get("$kind") == "request"]
            if asked:
                return asked[0]
        raise AssertionError("nobody was asked")

    def reply(self, asked: Publish, figures: Figures | None = None, covering: tuple[str, ...] = ()) -> list[Publish]:
        session = asked.attributes["$session"]
        assert isinstance(session, int)
        figures = figures or Figures(0.0, 0, 0.0, 75_000.0, 0.0, 0.0002)
        return self.send(Letter("b", "a", session, Reply(figures, "b", covering)))


def test_a_partner_that_vanishes_after_its_reply_ends_the_session_by_time() -> None:
    alone = Alone()
    asked = alone.until_asked()
    alone.reply(asked)
    assert alone.state() is State.BUSY
    alone.model.moving.clear()
    said = alone.run(1)
    assert [each.attributes["$kind"] for each in said if "$kind" in each.attributes] == ["moving"]
    assert alone.balancer.session is not None
    total = alone.balancer.session.total
    alone.model.moving.clear()
    alone.run(total // 2 + 12)
    assert not alone.has_session()
    assert alone.state() is State.STABILIZING


def test_who_has_nobody_to_give_away_asks_nobody() -> None:
    alone = Alone()
    alone.host.has_movable = lambda: False  # type: ignore[method-assign]
    for _ in range(20):
        alone.pie()
        assert not asked_for(alone.run(1))
    del alone.host.has_movable
    assert alone.until_asked()


def test_only_letters_of_the_right_scope_are_believed() -> None:
    alone = Alone()
    alone.run(3)
    assert not alone.send(Letter("b", "a", 7, Request("input"), is_global=True))
    alone.send(Letter("h", "a", 0, Watch(("far",))))
    assert (alone.has_session(), alone.host.watched) == (False, ())
    alone.send(Letter("h", "a", 0, Watch(("far",)), is_global=True))
    assert alone.host.watched == ("far",)


def test_a_session_in_which_nobody_asked_is_ended_at_once() -> None:
    alone = Alone()
    alone.run(3)
    (said,) = alone.send(Letter("b", "a", 77, Reply(Figures(0.0, 0, 0.0, 1.0, 0.0, 0.1), "b")))
    assert (said.attributes["$kind"], said.attributes["$to"], said.attributes["$session"]) == ("end", "b", 77)
    assert alone.state() is State.OK


@pytest.mark.parametrize(
    "changes",
    [{"$input": float("nan")}, {"$input": 1e9}, {"$state": "x"}, {"$balanced": 5}, {"$broker": None}, {"$kind": "x"}],
)
def test_hostile_load_information_is_survived(changes: dict[str, Any]) -> None:
    alone = Alone()
    alone.pie("mallory", **changes)
    alone.run(10)
    assert alone.state() is State.OK
    assert (
        "mallory" not in alone.balancer.peers(now_ms=alone.model.now_ms) or "$balanced" in changes or "$kind" in changes
    )


def test_a_covering_set_that_cannot_be_read_ends_the_session() -> None:
    alone = Alone()
    said = alone.reply(alone.until_asked(), covering=("((((",))
    assert [each.attributes["$kind"] for each in said] == ["end"]
    assert alone.state() is State.OK
    assert alone.balancer.counts["malformed"] == 1


def unreadable(sender: str, session: int, kind: str) -> Publish:
    return Publish({**Letter(sender, "a", session, Done()).attributes(), "$kind": kind}, b"\xc1")


def asked_for(said: list[Publish]) -> list[tuple[Any, Any]]:
    return [(each.attributes["$kind"], each.attributes["$to"]) for each in said if "$kind" in each.attributes]


def test_a_reply_that_cannot_be_read_frees_both_at_once() -> None:
    alone = Alone()
    asked = alone.until_asked()
    bad = Figures(-1.0, 0, 0.0, 75_000.0, 0.0, 0.0002)
    said = alone.reply(asked, bad)
    assert asked_for(said)[0] == ("end", "b"), "it must not wait for us until its time is over"
    session = alone.balancer.session
    assert session is None or session.number != asked.attributes["$session"]
    assert alone.state() is State.OK
    assert alone.balancer.counts["malformed"] == 1
    again: list[Publish] = []
    for _ in range(60):
        alone.pie()
        again += [each for each in alone.run(1) if each.payload == asked.payload]
    assert not again, "it is left alone for a while"


def test_the_next_candidate_is_asked_when_a_reply_cannot_be_read() -> None:
    alone = Alone()
    alone.pie("c")
    asked = alone.until_asked()
    first = asked.attributes["$to"]
    session = asked.attributes["$session"]
    assert isinstance(session, int)
    said = alone.publish(unreadable(str(first), session, "reply"))
    assert [kind for kind, _ in asked_for(said)] == ["end", "request"]


def test_a_letter_that_cannot_be_read_ends_the_session_of_who_accepts() -> None:
    alone = Alone()
    alone.run(5)
    alone.send(Letter("b", "a", 5, Request("input")))
    for sender, session in (("c", 5), ("b", 6)):
        assert not asked_for(alone.publish(unreadable(sender, session, "moving")))
        assert alone.state() is State.BUSY, "letters of others change nothing"
    assert asked_for(alone.publish(unreadable("b", 5, "moving"))) == [("end", "b")]
    assert alone.state() is State.STABILIZING
    assert not alone.has_session()


def test_a_letter_that_cannot_be_read_ends_sampling_and_moving() -> None:
    for seconds, phase in ((0, Phase.SAMPLING), (1, Phase.MOVING)):
        alone = Alone()
        asked = alone.until_asked()
        session = asked.attributes["$session"]
        assert isinstance(session, int)
        alone.reply(asked)
        alone.run(seconds)
        assert alone.balancer.session is not None
        assert alone.balancer.session.phase is phase
        assert ("end", "b") in asked_for(alone.publish(unreadable("b", session, "done")))
        assert alone.state() is State.STABILIZING
        assert not alone.has_session()


@pytest.mark.parametrize("changes", [{"$session": "x"}, {"$from": 5}, {"$to": "other"}, {"$class": "PIE"}])
def test_what_has_no_address_changes_no_session(changes: dict[str, Any]) -> None:
    alone = Alone()
    alone.run(5)
    alone.send(Letter("b", "a", 5, Request("input")))
    noise = unreadable("b", 5, "moving")
    alone.publish(Publish({**noise.attributes, **changes}, noise.payload))
    assert alone.state() is State.BUSY


def test_no_imbalance_is_acted_upon_while_loads_move() -> None:
    alone = Alone()
    alone.model.rate_msg_s /= 2
    alone.run(10)
    for turn in range(6):
        # A fourth more is published in every second, and what the partner tells is from before.
        alone.model.rate_msg_s *= 1.25
        if turn > 2:
            alone.pie()
        assert not asked_for(alone.run(1))
    assert 0.3 < alone.balancer.load.input < 0.9
    asked = []
    for _ in range(3):
        alone.pie()
        asked += asked_for(alone.run(1))
    assert asked == [("request", "b")], "and then it is"


def test_an_acceptor_to_whom_nobody_comes_ends_by_time() -> None:
    alone = Alone()
    alone.run(5)
    said = alone.send(Letter("b", "a", 5, Request("input")))
    assert said[0].attributes["$kind"] == "reply"
    assert alone.state() is State.BUSY
    alone.send(Letter("b", "a", 5, Moving(10)))
    assert alone.balancer.session is not None
    assert alone.balancer.session.phase is Phase.RECEIVING
    said = alone.run(11)
    assert [each.attributes["$kind"] for each in said if "$kind" in each.attributes] == ["done"]
    assert alone.state() is State.STABILIZING


def test_an_acceptor_whose_partner_vanishes_ends_by_time() -> None:
    alone = Alone()
    alone.run(5)
    alone.send(Letter("b", "a", 5, Request("input")))
    alone.run(41)
    assert not alone.has_session()
    assert alone.state() is State.STABILIZING


def test_a_second_request_is_refused_with_the_state() -> None:
    alone = Alone()
    alone.run(5)
    alone.send(Letter("b", "a", 5, Request("input")))
    said = alone.send(Letter("c", "a", 6, Request("input")))
    assert said[0].attributes["$kind"] == "refusal"


def test_the_end_of_another_session_changes_nothing() -> None:
    alone = Alone()
    alone.run(5)
    alone.send(Letter("b", "a", 5, Request("input")))
    alone.send(Letter("c", "a", 5, Done(1)))
    alone.send(Letter("b", "a", 6, End()))
    assert alone.state() is State.BUSY
    alone.send(Letter("b", "a", 5, End()))
    assert alone.state() is State.STABILIZING


def test_where_nothing_can_be_moved_it_is_not_tried_again_and_again() -> None:
    alone = Alone()
    full = Figures(0.0, 0, 75_000.0, 75_000.0, 0.0, 0.0002, 0.9, 0.9)
    asked = alone.until_asked()
    said = alone.reply(asked, full)
    said += alone.run(1)
    assert [each.attributes["$kind"] for each in said if "$kind" in each.attributes] == ["end"]
    assert alone.balancer.counts["fruitless"] == 1
    later = []
    for _ in range(50):
        alone.pie()
        later += [each for each in alone.run(1) if each.attributes.get("$kind") == "request"]
    assert asked.payload not in [each.payload for each in later], "other metrics may be tried"


def test_a_subscriber_that_stays_is_told_to_the_partner() -> None:
    alone = Alone()
    alone.reply(alone.until_asked())
    alone.run(1)
    session = alone.balancer.session
    assert session is not None
    total = session.total
    commands = alone.balancer.on_failed(session.number, "s1", "it is pinned")
    assert isinstance(commands[0], Note)
    assert isinstance(commands[1], Publish)
    assert session.total == total - 1


def test_what_was_measured_before_a_session_is_no_reason_for_the_next() -> None:
    model = pair(260, smoothing_ms=10_000)
    balancer = model.edges["a"]
    while not [note for note in model.notes if note.event == "balancing-ended"]:
        model.run(1)
        assert balancer.counts["sessions"] <= 1
    assert balancer.load.input < 0.95, "as it is since then, and not as it was"
    model.run(10)
    assert balancer.counts["sessions"] == 1


def test_who_came_does_not_go_back() -> None:
    trails = Trails(return_ms=1_000)
    trails.learn({"s1": ("a",), "s2": ()}, "b", now_ms=0)
    assert not trails.may_go("s1", "a", now_ms=999)
    assert not trails.may_go("s1", "b", now_ms=999)
    assert trails.may_go("s1", "c", now_ms=0)
    assert trails.may_go("s2", "a", now_ms=0)
    assert trails.may_go("stranger", "b", now_ms=0)
    assert trails.may_go("s1", "a", now_ms=1_000)


def test_trails_go_along() -> None:
    trails = Trails(return_ms=1_000)
    trails.learn({"s1": ("a",)}, "b", now_ms=0)
    assert trails.of(["s1", "s2"], now_ms=0) == {"s1": ("a", "b"), "s2": ()}
    assert trails.of(["s1"], now_ms=1_000) == {"s1": ()}


def test_what_is_kept_is_bounded() -> None:
    trails = Trails(return_ms=1_000)
    trails.learn({"s": [f"b{each}" for each in range(100)]}, "x", now_ms=0)
    assert len(trails.of(["s"], now_ms=0)["s"]) == 32
    for number in range(10):
        trails.learn({"s": [f"c{number}.{each}" for each in range(20)]}, "x", now_ms=0)
    assert len(trails.of(["s"], now_ms=0)["s"]) == 32
    trails.learn({f"c{each}": () for each in range(100_000)}, "x", now_ms=0)
    assert len(trails) == 100_000
    assert trails.may_go("s", "x", now_ms=0), "the oldest was forgotten"
