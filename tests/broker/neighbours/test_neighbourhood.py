from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from overlay import Overlay, chain, ring
from penstock.broker import BrokerSettings
from penstock.broker.access import Access
from penstock.broker.effects import Close, EndLife, Hold, Resume
from penstock.broker.neighbours.neighbourhood import challenge_for, is_proof, proof_of
from penstock.broker.outbox import Outbox
from penstock.broker.peers import Peer
from penstock.protocol import frames as f

KEY = "a long random word"
PB = BrokerSettings("pb", neighbours=("sb",), link_credential=KEY)
SB = BrokerSettings("sb", number=2, neighbours=("pb",), link_credential=KEY)


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (f.Hello(f.PROTOCOL_VERSION, "broker", "sb", "another", 1), "this is overlay penstock, not another"),
        (f.Hello(f.PROTOCOL_VERSION, "broker", "xb", "penstock", 1), "broker pb has no link with xb"),
        (f.Hello(f.PROTOCOL_VERSION, "broker", "sb", "penstock", 1), "authentication failed"),
        (f.Hello(9, "broker", "sb", "penstock", 1), f"protocol version 9 is not {f.PROTOCOL_VERSION}"),
        (f.Hello(f.PROTOCOL_VERSION, "wizard", "sb", "penstock", 1), "role 'wizard' is not expected here"),
    ],
)
def test_only_a_neighbour_that_proves_to_be_one_gets_a_link(hello: f.Hello, reason: str) -> None:
    overlay = Overlay(BrokerSettings("pb", neighbours=("sb",), link_credential="key"))
    stranger = overlay.stranger("pb")
    stranger.say(hello)
    assert stranger.heard == [f.Goodbye("refused", reason)]
    assert overlay.brokers["pb"].status().links == []


def test_a_certificate_of_somebody_else_is_no_proof() -> None:
    overlay = Overlay(BrokerSettings("pb", neighbours=("sb",)))
    broker = overlay.brokers["pb"]
    broker.connect(5, now_ms=1, certificate="xb")
    broker.receive(5, [f.Hello(f.PROTOCOL_VERSION, "broker", "sb", "penstock", 1)], now_ms=1)
    assert f.Goodbye("refused", "the certificate is for xb, not sb") in broker.outbox(5).take(10_000)


@pytest.mark.parametrize("role", ["broker", "client"])
def test_where_certificates_are_asked_for_one_without_a_name_is_nobody(role: str) -> None:
    overlay = Overlay(BrokerSettings("pb", neighbours=("sb",), access=Access({"sb": "key"}, certificates=True)))
    broker = overlay.brokers["pb"]
    broker.connect(5, now_ms=1, certificate="")
    token = "key" if role == "client" else ""
    broker.receive(5, [f.Hello(f.PROTOCOL_VERSION, role, "sb", "penstock", 1, token)], now_ms=1)
    (goodbye,) = broker.outbox(5).take(10_000)
    assert isinstance(goodbye, f.Goodbye)
    assert goodbye.reason in ("the certificate is for nobody, not sb", "its certificate does not have exactly one name")
    assert (broker.status().links, broker.status().clients) == ([], 0)


@pytest.mark.parametrize("name", ["sb", "pb", ""])
def test_a_broker_without_neighbours_lets_no_broker_in(name: str) -> None:
    overlay = Overlay(BrokerSettings("pb"))
    stranger = overlay.stranger("pb")
    stranger.say(f.Hello(f.PROTOCOL_VERSION, "broker", name, "penstock", 1))
    assert stranger.heard == [f.Goodbye("refused", f"broker pb has no link with {name}")]


def test_who_answers_a_dialled_link_must_be_the_one_that_was_dialled() -> None:
    overlay = Overlay(BrokerSettings("pb", neighbours=("sb", "tb")))
    broker = overlay.brokers["pb"]
    broker.connect(5, now_ms=1, dialled="sb")
    broker.receive(5, [f.Hello(f.PROTOCOL_VERSION, "broker", "tb", "penstock", 1)], now_ms=1)
    assert f.Goodbye("refused", "this should be sb, not tb") in broker.outbox(5).take(10_000)


def test_a_neighbour_that_connects_anew_replaces_its_old_connection() -> None:
    overlay = chain("pb", "sb")
    subscriber = overlay.client("sb")
    subscriber.subscribe(1, "")
    overlay.link("pb", "sb")
    assert overlay.brokers["pb"].status().links == ["sb"]
    assert overlay.brokers["sb"].status().links == ["pb"]
    overlay.client("pb").publish({"a": 1})
    assert subscriber.messages() == [{"a": 1}]


def test_a_subscription_is_confirmed_when_the_pubend_has_answered() -> None:
    overlay = chain("pb", "ib", "sb")
    client = overlay.client("sb")
    client.subscribe(1, "volume > 5")
    client.subscribe(2, "volume > 50")
    assert client.heard[-2:] == [f.Subscribed(1, "volume > 5"), f.Subscribed(2, "volume > 50")]


def test_a_pubend_out_of_reach_is_reported_at_once_as_pending() -> None:
    overlay = chain("pb", "ib", "sb")
    overlay.cut("pb", "ib")
    client = overlay.client("sb")
    client.subscribe(1, "volume > 5")
    assert client.all(f.Subscribed) == [f.Subscribed(1, "volume > 5", ("pb.a",))]


def test_a_pubend_that_does_not_answer_in_time_is_reported_as_pending() -> None:
    overlay = chain("pb", "ib", "sb", subscribe_wait_ms=2_000)
    overlay.loses = f.FilterProbe
    client = overlay.client("sb")
    client.subscribe(1, "volume > 5")
    overlay.wait(1_999)
    assert not client.all(f.Subscribed)
    overlay.wait(1)
    assert client.all(f.Subscribed) == [f.Subscribed(1, "volume > 5", ("pb.a",))]


def test_a_probe_that_was_lost_is_sent_again() -> None:
    overlay = chain("pb", "ib", "sb", subscribe_wait_ms=2_000)
    overlay.loses = f.FilterApplied
    client = overlay.client("sb")
    client.subscribe(1, "volume > 5")
    overlay.loses = None
    overlay.wait(1_000)
    assert client.all(f.Subscribed) == [f.Subscribed(1, "volume > 5")]


def test_a_neighbour_that_was_not_met_since_the_start_is_waited_for() -> None:
    overlay = Overlay(
        BrokerSettings("pb", pubends=("pb.a",), best_effort=("pb.a",), neighbours=("sb",)),
        BrokerSettings("sb", neighbours=("pb",), subscribe_wait_ms=2_000),
    )
    early = overlay.client("sb")
    early.subscribe(1, "volume > 5")
    overlay.wait(2_000)
    assert early.all(f.Subscribed) == [f.Subscribed(1, "volume > 5", ("pubends behind broker pb (not connected yet)",))]
    early.subscribe(2, "volume > 1")
    overlay.link("pb", "sb")
    overlay.wait(600)
    assert early.all(f.Subscribed)[-1] == f.Subscribed(2, "volume > 1")


def test_every_filter_update_is_acknowledged() -> None:
    overlay = chain("pb", "ib", "sb")
    client = overlay.client("sb")
    for number in range(5):
        client.subscribe(number, f"a = {number}")
    for broker in overlay.brokers.values():
        for peer in broker._connections.links.values():
            assert peer.sequence is not None
            assert peer.sequence.sent == peer.sequence.acknowledged


def test_more_subscriptions_than_fit_a_frame_reach_a_broker_that_joins_late() -> None:
    overlay = chain("pb", "sb")
    overlay.cut("pb", "sb")
    client = overlay.client("sb")
    for number in range(2_500):
        client.subscribe(number, f"a = {number}")
    overlay.link("pb", "sb")
    overlay.wait(50)
    assert overlay.brokers["pb"].status().filters.entries == 2_500
    overlay.client("pb").publish({"a": 2_499})
    assert client.messages() == [{"a": 2_499}]
    overlay.check_invariants()


def joined_late(count: int) -> Overlay:
    """A broker that hears from its neighbour of many subscriptions at once."""
    overlay = chain("pb", "sb")
    overlay.cut("pb", "sb")
    client = overlay.client("sb")
    for number in range(count):
        client.subscribe(number, f"a = {number}")
    overlay.wait(1_000)
    overlay.link("pb", "sb")
    return overlay


def link_of(overlay: Overlay, broker: str, neighbour: str) -> Peer:
    return overlay.brokers[broker].connections.links[neighbour]


def test_a_large_filter_comes_into_force_in_bounded_steps_and_is_acknowledged_after_the_last() -> None:
    overlay = joined_late(1_000)
    entries = []
    while (found := overlay.brokers["pb"].status().filters.entries) < 1_000:
        entries.append(found)
        told = link_of(overlay, "sb", "pb").sequence
        assert told is not None
        assert told.acknowledged < told.sent
        overlay.check_invariants()
        overlay.wait(1)
    assert entries == [128 * turn for turn in range(1, 8)]
    told = link_of(overlay, "sb", "pb").sequence
    assert told is not None
    assert told.acknowledged == told.sent


def test_what_follows_a_large_change_on_its_link_waits_until_it_is_in_force() -> None:
    overlay = joined_late(1_000)
    late = overlay.client("sb")
    late.subscribe(1, "b = 1")
    assert overlay.brokers["pb"].status().filters.entries == 128
    assert not late.all(f.Subscribed)
    overlay.client("pb").publish({"b": 1})
    overlay.wait(1_000)
    assert overlay.brokers["pb"].status().filters.entries == 1_001
    assert [each.number for each in late.all(f.Subscribed) if isinstance(each, f.Subscribed)] == [1]
    overlay.client("pb").publish({"b": 1})
    assert late.messages()[-1:] == [{"b": 1}]


def test_a_shell_is_asked_to_hold_a_link_and_to_go_on_with_it() -> None:
    overlay = Overlay(BrokerSettings("pb", neighbours=("sb",)))
    broker = overlay.brokers["pb"]
    broker.connect(5, now_ms=1)
    broker.receive(5, [f.Hello(f.PROTOCOL_VERSION, "broker", "sb", "penstock", 1)], now_ms=1)
    update = f.FilterUpdate(1, "sb", 1, 1, -1, tuple(f"a = {n}" for n in range(200)))
    assert Hold(5) in broker.receive(5, [update, f.Heartbeat(1)], now_ms=1)
    assert broker.next_deadline() == 2
    assert Resume(5) in broker.on_deadline(now_ms=2)
    assert f.FilterAck(1) in broker.outbox(5).take(100_000)


def test_a_change_that_follows_on_another_link_waits_for_the_one_before() -> None:
    overlay = ring("a", "b", "c")
    overlay.cut("a", "b")
    overlay.cut("c", "a")
    client = overlay.client("a")
    for number in range(500):
        client.subscribe(number, f"x = {number}")
    overlay.link("a", "b")
    overlay.link("c", "a")
    client.subscribe(500, "y = 1")
    overlay.wait(1_000)
    for name in ("b", "c"):
        assert overlay.brokers[name].status().filters.entries == 501
        for neighbour, peer in overlay.brokers[name].connections.links.items():
            assert peer.sequence is not None
            assert peer.sequence.acknowledged == peer.sequence.sent, (name, neighbour)
    overlay.check_invariants()


def test_a_large_change_comes_into_force_also_if_its_link_is_gone() -> None:
    overlay = joined_late(1_000)
    overlay.cut("pb", "sb")
    overlay.wait(100)
    assert overlay.brokers["pb"].status().filters.entries == 1_000
    overlay.link("pb", "sb")
    overlay.wait(100)
    overlay.check_invariants()


def test_a_link_that_is_held_is_not_taken_to_be_silent() -> None:
    overlay = joined_late(1_000)
    link = link_of(overlay, "pb", "sb")
    link.heard_ms = 0
    overlay.wait(1)
    assert link.heard_ms == overlay.now_ms


# --- both ends prove that they have the token


def peer(number: int, dialled: str = "") -> Peer:
    return Peer(number, Outbox(control_bytes_max=1, data_bytes_max=1), 0, 0, dialled=dialled)


def hello(name: str, challenge: bytes) -> f.Hello:
    return f.Hello(f.PROTOCOL_VERSION, "broker", name, "penstock", 1, challenge=challenge)


def ends() -> tuple[Peer, Peer]:
    """The two ends of a link that sb has dialled, when both have said hello."""
    at_pb, at_sb = peer(1), peer(2, "pb")
    at_pb.challenge, at_sb.challenge = challenge_for(at_pb, b"pb"), challenge_for(at_sb, b"sb")
    at_pb.greeting, at_sb.greeting = hello("sb", at_sb.challenge), hello("pb", at_pb.challenge)
    return at_pb, at_sb


def test_each_end_proves_itself_to_the_other() -> None:
    at_pb, at_sb = ends()
    assert is_proof(proof_of(at_sb, SB), at_pb, PB)
    assert is_proof(proof_of(at_pb, PB), at_sb, SB)


def test_an_end_cannot_be_shown_its_own_proof() -> None:
    at_pb, at_sb = ends()
    assert not is_proof(proof_of(at_pb, PB), at_pb, PB)
    assert not is_proof(proof_of(at_sb, SB), at_sb, SB)


@pytest.mark.parametrize("changes", [{"link_credential": "another"}, {"overlay": "another"}, {"name": "tb"}])
def test_another_token_overlay_or_name_gives_another_proof(changes: dict[str, str]) -> None:
    at_pb, at_sb = ends()
    assert not is_proof(proof_of(at_sb, replace(SB, **changes)), at_pb, PB)  # type: ignore[arg-type]


def test_no_connection_and_no_life_has_the_challenge_of_another() -> None:
    challenges = [challenge_for(peer(number), secret) for number in range(3) for secret in (b"1", b"2", b"3")]
    assert len(set(challenges)) == 9


def test_a_challenge_says_nothing_of_the_token() -> None:
    said = []
    for key in ("one", "other"):
        stranger = chain("pb", "sb", link_credential=key).stranger("sb")
        stranger.say(hello("pb", b"x" * 32))
        said += [frame.challenge for frame in stranger.heard if isinstance(frame, f.Hello)]
    assert len(said) == 2
    assert said[0] == said[1]


def test_brokers_with_a_token_have_links_and_never_send_it() -> None:
    overlay = chain("pb", "ib", "sb", link_credential=KEY)
    assert overlay.brokers["ib"].status().links == ["pb", "sb"]
    stranger = overlay.stranger("sb")
    stranger.say(hello("ib", b"x" * 32))
    (said,) = stranger.heard
    assert isinstance(said, f.Hello)
    assert (said.credential, len(said.challenge)) == ("", 32)


@pytest.mark.parametrize("proof", [b"", b"x" * 32, KEY.encode()])
def test_who_cannot_prove_it_is_refused(proof: bytes) -> None:
    overlay = Overlay(PB)
    stranger = overlay.stranger("pb")
    stranger.say(hello("sb", b"x" * 32), f.LinkProof(proof))
    assert stranger.heard[1:] == [f.Goodbye("refused", "authentication failed")]
    assert overlay.brokers["pb"].status().links == []


def test_who_was_dialled_has_to_prove_it_too() -> None:
    broker = Overlay(PB).brokers["pb"]
    broker.connect(5, now_ms=1, dialled="sb")
    broker.receive(5, [hello("sb", b"x" * 32), f.LinkProof(b"x" * 32)], now_ms=1)
    greeting, proof, goodbye = broker.outbox(5).take(10_000)
    assert isinstance(greeting, f.Hello)
    assert isinstance(proof, f.LinkProof)
    assert goodbye == f.Goodbye("refused", "authentication failed")


def test_a_proof_that_was_overheard_opens_no_other_link() -> None:
    overlay = Overlay(PB)
    at_pb, at_sb = ends()
    assert at_pb.greeting is not None
    stranger = overlay.stranger("pb")
    stranger.say(at_pb.greeting, f.LinkProof(proof_of(at_sb, SB)))
    assert stranger.heard[-1] == f.Goodbye("refused", "authentication failed")


@pytest.mark.parametrize(("mine", "theirs"), [(KEY, b""), ("", b"x" * 32)])
def test_with_a_token_at_one_end_only_there_is_no_link(mine: str, theirs: bytes) -> None:
    overlay = Overlay(replace(PB, link_credential=mine))
    stranger = overlay.stranger("pb")
    stranger.say(hello("sb", theirs))
    assert stranger.heard == [f.Goodbye("refused", "authentication failed")]


@pytest.mark.parametrize("frames", [[f.LinkProof(b"x")], [hello("sb", b"x" * 32), hello("sb", b"x" * 32)]])
def test_proofs_and_hellos_have_their_place(frames: list[f.Frame]) -> None:
    stranger = Overlay(PB).stranger("pb")
    stranger.say(*frames)
    goodbye = stranger.heard[-1]
    assert isinstance(goodbye, f.Goodbye)
    assert goodbye.code == "protocol"


# --- homes: brokers that move between candidates

CANDIDATE = BrokerSettings("pb", neighbours=("q.home", "sb"), homes=("q.home",))
HOME_UP = f.LinkState("q.home", 7, 1, ("sb",), ("q",))


def linked(
    overlay: Overlay, broker: str, connection: int, name: str, incarnation: int, certificate: str = ""
) -> list[f.Frame]:
    """Says hello to a broker as a neighbour, and returns the answer."""
    overlay.brokers[broker].connect(connection, now_ms=1, certificate=certificate)
    hello = f.Hello(f.PROTOCOL_VERSION, "broker", name, "penstock", incarnation)
    overlay.brokers[broker].receive(connection, [hello], now_ms=1)
    return overlay.brokers[broker].outbox(connection).take(100_000)


def test_an_earlier_life_of_a_home_is_refused_once_a_later_one_is_known() -> None:
    overlay = Overlay(CANDIDATE)
    linked(overlay, "pb", 5, "sb", 1)
    overlay.brokers["pb"].receive(5, [HOME_UP], now_ms=2)
    assert f.Goodbye("refused", "a later life of q.home is known") in linked(overlay, "pb", 6, "q.home", 6)
    assert overlay.brokers["pb"].status().links == ["sb"]
    linked(overlay, "pb", 7, "q.home", 7)
    assert sorted(overlay.brokers["pb"].status().links) == ["q.home", "sb"]


CERTIFIED = replace(CANDIDATE, access=Access({"sb": "key"}, certificates=True))


def test_a_home_shows_the_certificate_of_the_broker_beside_it() -> None:
    overlay = Overlay(CERTIFIED)
    linked(overlay, "pb", 5, "q.home", 1, "pb")
    assert overlay.brokers["pb"].status().links == ["q.home"]


@pytest.mark.parametrize("other", ["q.home", "sb", ""])
def test_no_other_certificate_counts_for_a_home(other: str) -> None:
    answer = linked(Overlay(CERTIFIED), "pb", 5, "q.home", 1, other)
    assert f.Goodbye("refused", f"the certificate is for {other or 'nobody'}, not pb") in answer


def test_a_link_to_a_home_ends_when_a_later_life_elsewhere_is_heard_of() -> None:
    overlay = Overlay(CANDIDATE)
    broker = overlay.brokers["pb"]
    linked(overlay, "pb", 5, "sb", 1)
    linked(overlay, "pb", 6, "q.home", 6)
    broker.receive(6, [f.LinkState("q.home", 6, 1, ("pb",), ("q",))], now_ms=2)
    effects = broker.receive(5, [HOME_UP], now_ms=3)
    assert Close(6, "superseded", "a later life of q.home runs elsewhere") in effects
    assert broker.status().links == ["sb"]


def test_an_ordinary_neighbour_with_an_earlier_incarnation_is_let_in_as_its_clock_may_have_been_set_back() -> None:
    overlay = Overlay(BrokerSettings("pb", neighbours=("xb", "sb")))
    linked(overlay, "pb", 5, "sb", 1)
    overlay.brokers["pb"].receive(5, [f.LinkState("xb", 7, 1, ("sb",), ())], now_ms=2)
    linked(overlay, "pb", 6, "xb", 6)
    assert sorted(overlay.brokers["pb"].status().links) == ["sb", "xb"]


def test_a_home_that_hears_of_a_later_life_of_its_own_ends() -> None:
    overlay = Overlay(BrokerSettings("q.home", neighbours=("pb",), homes=("q.home",), pubends=("q",)))
    home = overlay.brokers["q.home"]
    linked(overlay, "q.home", 5, "pb", 1)
    mine = home.rooms.topology.incarnation_of("q.home")
    assert not any(
        isinstance(each, EndLife) for each in home.receive(5, [replace_incarnation(HOME_UP, mine)], now_ms=2)
    )
    effects = home.receive(5, [replace_incarnation(HOME_UP, mine + 1)], now_ms=3)
    assert EndLife("a later life of q.home runs elsewhere") in effects


def replace_incarnation(state: f.LinkState, incarnation: int) -> f.LinkState:
    """The same link state of another life."""
    return structs.replace(state, incarnation=incarnation)


def test_a_subscription_does_not_wait_for_a_home_that_runs_at_another_candidate() -> None:
    overlay = Overlay(CANDIDATE)
    broker = overlay.brokers["pb"]
    linked(overlay, "pb", 5, "sb", 1)
    assert broker._neighbourhood.awaited() == ["pubends behind broker q.home (not connected yet)"]
    broker.receive(5, [HOME_UP, f.LinkState("sb", 1, 9, ("pb", "q.home"), ())], now_ms=4)
    assert broker._neighbourhood.awaited() == ["q"]
