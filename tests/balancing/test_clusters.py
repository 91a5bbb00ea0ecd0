"""Sessions between clusters: heads agree, edges see each other, and it ends when all are balanced."""

from __future__ import annotations

from balancing.model import Model
from penstock.balancing.clusters import ClusterHead
from penstock.balancing.estimators import Figures
from penstock.balancing.messages import Done, Letter, Reply, Request
from penstock.balancing.metrics import Load
from penstock.balancing.pie import Pie
from penstock.balancing.settings import BalancingSettings
from penstock.balancing.states import State
from penstock.model.metrics import DELAY
from penstock.model.values import AttributeValue

SETTINGS = BalancingSettings(
    is_on=True, detection_ms=1_000, pie_ms=2_000, peer_ms=10_000, smoothing_ms=3_000, stabilize_ms=5_000
)


def chain(count: int) -> Model:
    model = Model({"h1": {"a1": 1.0, "a2": 1.0}, "h2": {"b1": 1.0, "b2": 1.0}}, settings=SETTINGS)
    for each in model.subscribers(count):
        model.hosts["a1"].add(each)
    return model


def test_two_clusters_share_what_one_had() -> None:
    model = chain(200)
    model.run(200)
    counts = {name: len(model.hosts[name].clients) for name in model.edges}
    assert sum(counts.values()) == 200
    assert counts["b1"] + counts["b2"] > 40, counts
    events = [note.event for note in model.notes]
    assert "balancing-clusters" in events
    first, second = (
        sum(model.load(name).value(DELAY, delay_norm_s=0.1) for name in names) / 2
        for names in (("a1", "a2"), ("b1", "b2"))
    )
    assert abs(first - second) <= 0.15 + 0.05


class Head:
    """A head whose surroundings the test plays."""

    def __init__(self) -> None:
        model = Model({"h1": {"a1": 1.0}, "h2": {}}, settings=SETTINGS)
        self.host = model.hosts["h1"]
        self.head: ClusterHead = ClusterHead("h1", "h1", SETTINGS, self.host, model.rng, neighbours=("h2", "a1"))
        self.now_ms = 1_000_000

    def watched(self) -> tuple[str, ...]:
        return self.host.watched

    def state(self) -> State:
        return self.head.standing.state

    def hear(self, pie: Pie) -> list[object]:
        return list(self.head.on_publication(pie.attributes("h1"), b"", now_ms=self.now_ms))

    def send(self, letter: Letter) -> list[object]:
        return list(self.head.on_publication(letter.attributes(), letter.payload(), now_ms=self.now_ms))

    def publish(self, attributes: dict[str, AttributeValue]) -> list[object]:
        """Something that cannot be read."""
        return list(self.head.on_publication(attributes, b"\xc1", now_ms=self.now_ms))

    def wait(self, seconds: int, *pies: Pie) -> list[object]:
        said: list[object] = []
        for _ in range(seconds):
            self.now_ms += 1_000
            for pie in pies:
                self.hear(pie)
            due_ms = self.head.next_deadline()
            if due_ms is not None and due_ms <= self.now_ms:
                said += self.head.on_deadline(now_ms=self.now_ms)
        return said


EDGE = Pie("a1", "h1", State.OK, Load(0.8, 0.1, 0.01))
CALM = Pie("h2", "h2", State.OK, Load(0.1, 0.1, 0.01), is_global=True)


def kinds(said: list[object]) -> list[str]:
    attributes = [getattr(each, "attributes", {}) for each in said]
    return [str(each["$kind"]) for each in attributes if "$kind" in each]


def test_a_head_averages_its_edges_and_tells_its_neighbours() -> None:
    head = Head()
    said = head.wait(6, EDGE, Pie("a2", "h1", State.OK, Load(0.4)))
    pies = [each.attributes for each in said if each.attributes.get("$class") == "PIE"]  # type: ignore[attr-defined]
    assert pies
    assert {each["$to"] for each in pies} == {"h2", "a1"}
    assert abs(pies[-1]["$input"] - 0.6) < 1e-9


def test_a_head_without_edges_passes_load_information_on_once() -> None:
    head = Head()
    said = head.hear(Pie("h0", "h0", State.OK, Load(0.5), is_global=True))
    assert [each.attributes["$to"] for each in said] == ["h2", "a1"]  # type: ignore[attr-defined]
    assert head.hear(Pie("h0", "h0", State.OK, Load(0.5), is_global=True, hops=1)) == []
    head.hear(EDGE)
    assert head.hear(Pie("h0", "h0", State.OK, Load(0.5), is_global=True)) == []


def test_the_busier_cluster_asks_and_edges_are_told_after_the_reply() -> None:
    head = Head()
    said = head.wait(6, EDGE, CALM)
    assert kinds(said)[:1] == ["request"]
    request = next(each.attributes for each in said if each.attributes.get("$kind") == "request")  # type: ignore[attr-defined]
    figures = Reply(Figures(0.0, 0, 0.0, 1.0, 0.0, 0.0), "", ("h2",))
    said = head.send(Letter("h2", "h1", int(request["$session"]), figures, is_global=True))
    assert kinds(said) == ["watch"]
    assert head.watched() == ("h2",)
    assert head.state() is State.BUSY
    said = head.send(Letter("h2", "h1", int(request["$session"]), Done(2), is_global=True))
    assert kinds(said) == ["watch"]
    assert head.watched() == ()
    assert head.state() is State.STABILIZING


def test_a_letter_that_cannot_be_read_ends_the_session_of_both_heads() -> None:
    head = Head()
    head.wait(3, EDGE)
    assert kinds(head.send(Letter("h2", "h1", 5, Request("input"), is_global=True))) == ["reply", "watch"]
    noise = Letter("h2", "h1", 5, Done(2), is_global=True).attributes()
    for changes in ({"$from": "h3"}, {"$session": 6}, {"$session": "x"}, {"$scope": "local"}, {"$to": "h3"}):
        assert kinds(head.publish({**noise, **changes})) == []
        assert head.state() is State.BUSY
    assert kinds(head.publish(noise)) == ["end", "watch"]
    assert head.watched() == ()
    assert head.state() is State.STABILIZING


def test_a_cluster_with_an_edge_that_is_not_available_is_not_either() -> None:
    head = Head()
    busy = Pie("a1", "h1", State.NOT_AVAILABLE, Load(0.92))
    head.wait(3, busy, Pie("a2", "h1", State.OK, Load(0.2)))
    assert head.state() is State.NOT_AVAILABLE
    said = head.send(Letter("h2", "h1", 5, Request("input"), is_global=True))
    assert kinds(said) == ["refusal"]


def test_a_cluster_that_is_overloaded_as_a_whole_may_offload() -> None:
    head = Head()
    busy = (Pie("a1", "h1", State.NOT_AVAILABLE, Load(0.97)), Pie("a2", "h1", State.NOT_AVAILABLE, Load(0.93)))
    assert "request" in kinds(head.wait(6, *busy, CALM))
    other = Head()
    room = (busy[0], Pie("a2", "h1", State.OK, Load(0.2)))
    assert "request" not in kinds(other.wait(6, *room, CALM)), "first within the cluster"


def test_letters_that_cannot_be_right_are_counted() -> None:
    head = Head()
    said = head.head.on_publication({"$class": "BALANCING", "$kind": "x"}, b"", now_ms=0)
    assert head.head.counts["malformed"] == 1
    assert len(said) == 1


def test_a_head_does_not_open_its_cluster_to_a_group_of_heads() -> None:
    head = Head()
    said = head.wait(6, EDGE, CALM)
    request = next(each.attributes for each in said if each.attributes.get("$kind") == "request")  # type: ignore[attr-defined]
    reply = Reply(Figures(0.0, 0, 0.0, 1.0, 0.0, 0.0), "", ("$heads",))
    said = head.send(Letter("h2", "h1", int(request["$session"]), reply, is_global=True))
    assert kinds(said) == ["end"]
    assert head.watched() == ()


def test_a_partner_that_vanishes_ends_the_session_by_time() -> None:
    head = Head()
    head.hear(EDGE)
    said = head.send(Letter("h2", "h1", 5, Request("input"), is_global=True))
    assert kinds(said) == ["reply", "watch"]
    head.wait(901, EDGE)
    assert head.head.session is None
    assert head.watched() == ()


def test_a_session_ends_when_all_edges_are_in_each_others_balanced_sets() -> None:
    head = Head()
    head.hear(EDGE)
    head.hear(CALM)
    head.send(Letter("h2", "h1", 5, Request("input"), is_global=True))
    first = Pie("a1", "h1", State.OK, Load(0.5), ("b1",))
    other = Pie("b1", "h2", State.OK, Load(0.5), ("a1",))
    apart = Pie("b1", "h2", State.OK, Load(0.1))
    busy = Pie("b1", "h2", State.BUSY, Load(0.5), ("a1",))
    assert "done" not in kinds(head.wait(4, first, other)), "not before edges had time to act"
    assert "done" not in kinds(head.wait(10, first, apart))
    assert "done" not in kinds(head.wait(10, first, busy))
    assert kinds(head.wait(2, first, other)) == ["done", "watch"]
    assert head.state() is State.STABILIZING
    assert head.watched() == ()
