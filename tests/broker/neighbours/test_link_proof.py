"""Both ends of a link prove that they have the token; nobody learns it, and no proof counts twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from overlay import Overlay, chain
from penstock.broker import BrokerSettings
from penstock.broker.neighbours.link_proof import challenge_for, is_proof, proof_of
from penstock.broker.outbox import Outbox
from penstock.broker.peers import Peer
from penstock.protocol import frames as f

KEY = "a long random word"
PB = BrokerSettings("pb", neighbours=("sb",), link_credential=KEY)
SB = BrokerSettings("sb", number=2, neighbours=("pb",), link_credential=KEY)


def peer(number: int, dialled: str = "") -> Peer:
    return Peer(number, Outbox(control_bytes_max=1, data_bytes_max=1), 0, 0, dialled=dialled)


def hello(name: str, challenge: bytes) -> f.Hello:
    return f.Hello(f.PROTOCOL_VERSION, "broker", name, "penstock", 1, challenge=challenge)


def ends(pb: BrokerSettings = PB, sb: BrokerSettings = SB) -> tuple[Peer, Peer]:
    """The two ends of a link that sb has dialled, when both have said hello."""
    at_pb, at_sb = peer(1), peer(2, "pb")
    at_pb.challenge, at_sb.challenge = challenge_for(at_pb, pb, 5), challenge_for(at_sb, sb, 6)
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
    challenges = [challenge_for(peer(number), PB, life) for number in range(3) for life in range(3)]
    challenges.append(challenge_for(peer(0), SB, 0))
    assert len(set(challenges)) == 10


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
