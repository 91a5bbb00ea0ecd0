"""The fuzz of the edges: a little of it must find nothing, and each of its oracles notices what it is for."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest
from bench.edge_fuzz import frames, oracle, overlay_files, selectors, stomp
from bench.edge_fuzz.episodes import throw
from bench.edge_fuzz.guide import Corpus, Coverage
from bench.edge_fuzz.oracle import Findings, check_words, turn
from bench.edge_fuzz.rig import Rig
from bench.edge_fuzz.stomp_rig import StompRig
from bench.edge_fuzz.stomp_talkers import StompTalker, stomp_damaged, stomp_parts
from bench.fuzzing import Fault
from bench.shapes import KINDS, any_frame

from penstock.broker.broker import Broker
from penstock.broker.durable import Append
from penstock.broker.effects import Commit
from penstock.protocol import frames as f
from penstock.protocol.codec import FrameReader, encode_frame
from penstock.selectors import Selector
from penstock.stomp import StompPeer
from penstock.stomp.transactions import Transactions

HELLO = encode_frame(f.Hello(f.PROTOCOL_VERSION, "client", "mallory", "fuzz"))


def test_frames_over_all_states_do_no_harm() -> None:
    throw(frames.FRAMES, Random("tested"), 3_000)


def test_stomp_clients_that_say_anything_do_no_harm() -> None:
    throw(stomp.STOMP, Random("tested"), 3_000)


def test_selectors_of_any_shape_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "SELECTORS_PER_SEED", 500)
    selectors.selectors_inside(Random("tested"))


def test_overlay_files_of_any_content_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay_files, "FILES_PER_SEED", 60)
    overlay_files.overlay_files_inside(Random("tested"))


def test_a_bug_in_a_handler_is_found_and_told_by_the_frames_that_meet_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_broker: Broker, *, now_ms: int) -> None:
        raise ValueError(f"planted at {now_ms}")

    monkeypatch.setattr(Broker, "on_deadline", fail)
    with pytest.raises(RuntimeError, match="1 kinds of fault\nValueError: planted at") as caught:
        throw(frames.FRAMES, Random("tested"), 500)
    # Shortened: one peer that connects is enough for a deadline.
    assert str(caught.value).count("peer ") == 1


def test_a_bug_in_a_stomp_peer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_transactions: Transactions, name: str) -> None:
        raise ValueError(f"planted for {name}")

    monkeypatch.setattr(Transactions, "begin", fail)
    with pytest.raises(RuntimeError, match="1 kinds of fault\nValueError: planted for"):
        throw(stomp.STOMP, Random("tested"), 500)


def test_words_after_an_error_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    end = StompPeer._end

    def add_to_it(peer: StompPeer) -> None:
        end(peer)
        peer._output.add(b"RECEIPT\nreceipt-id:1\n\n\0")

    monkeypatch.setattr(StompPeer, "_end", add_to_it)
    with pytest.raises(Fault, match="after an ERROR comes"):
        throw(stomp.STOMP, Random("tested"), 200)


@pytest.mark.parametrize(
    ("written", "what"),
    [
        (b"MESSAGE\nid:1\n\n\0", "before CONNECTED"),
        (b"SEND\nid:1\n\n\0", "no STOMP"),
        (b"ERROR\nmessage:KeyError\n\n\0", "speaks of Python"),
        (b"CONNECTED\nversion:1.0\n\n\0RECEIPT\nreceipt-id:7\n\n\0", "nobody asked"),
    ],
)
def test_what_a_stomp_client_should_not_be_told_is_noticed(written: bytes, what: str) -> None:
    rig = StompRig(0)
    rig.connect(1)
    with pytest.raises(Fault, match=what):
        rig._write(rig._lines[1], written)


def test_a_broker_in_the_rig_serves_stomp_clients_and_native_ones_together() -> None:
    rig = StompRig(0)
    for number in (0, 1):
        rig.connect(number)
        assert rig.hear(number, b"CONNECT\naccept-version:1.2\nhost:x\nlogin:me\n\n\0") == 1
    rig.hear(0, b"SUBSCRIBE\nid:1\ndestination:/topic/a\nack:client\n\n\0")
    rig.wait(1_000)
    rig.hear(1, b"SEND\ndestination:/topic/a\nreceipt:r\n\nhello\0")
    rig.wait(1_000)
    assert [each.command for each in rig.heard(1)] == ["CONNECTED", "RECEIPT"]
    greeting, message = rig.heard(0)
    assert (greeting.command, message.body) == ("CONNECTED", b"hello")
    assert rig.hear(0, b"ACK\nid:" + message.headers["ack"].encode() + b"\n\n\0") == 1
    rig.end()
    assert rig.connections == []


def test_parts_of_what_a_stomp_client_said_are_all_of_it() -> None:
    rng = Random(0)
    for _ in range(100):
        talker = StompTalker(rng)
        said = b"".join([talker.opening(), *(talker.part() for _ in range(5))])
        assert b"".join(stomp_parts(said)) == said
        assert stomp_damaged(rng, said) is not said


def test_a_number_that_no_store_can_keep_is_noticed() -> None:
    with pytest.raises(Fault, match="beyond 64 bits"):
        Rig(0)._commit(Commit(1, (Append("b1.log", sequences={b"p": 2**63}),)))


def test_a_broker_in_the_rig_serves_who_says_what_belongs() -> None:
    rig = Rig(0)
    rig.connect(1)
    assert rig.hear(1, HELLO) == 1
    assert rig.welcomed[1][1] == 1
    assert rig.hear(1, encode_frame(f.Subscribe(1, "x > 1"))) == 1
    rig.wait(1_000)
    rig.check()
    assert rig.connections == [1]


@pytest.mark.parametrize(
    "text",
    ["Traceback (most recent call last)", "<x object at 0x7f>", "KeyError: 3", "'utf-8' codec can't decode byte"],
)
def test_words_of_python_are_noticed_unless_the_peer_wrote_them(text: str) -> None:
    with pytest.raises(Fault, match="speaks of Python"):
        check_words(text)
    check_words(text, besides=f"x = '{text}'")


def test_a_turn_that_takes_too_long_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "TURN_S_MAX", 0.0)
    with pytest.raises(Fault, match="one turn took"), turn():
        _spend()


def _spend() -> None:
    spent_s = time.process_time()
    while time.process_time() == spent_s:
        pass


def test_the_first_fault_of_a_kind_does_not_hide_other_kinds() -> None:
    findings = Findings()
    for error in (Fault("one 1"), Fault("one 2"), ValueError("another")):
        findings.add(error, "its story")
    with pytest.raises(RuntimeError, match="2 kinds of fault"):
        findings.raise_if_any()


def test_coverage_counts_each_line_once() -> None:
    coverage = Coverage("penstock.selectors")

    def watched(text: str) -> int:
        before = coverage.lines
        with coverage.watching():
            Selector.parse(text)
        return coverage.lines - before

    assert watched("a = 123454321") > 0
    assert watched("a = 123454322") == 0
    assert watched("a LIKE 'watched%'") > 0


def test_a_corpus_forgets_when_it_is_full() -> None:
    corpus = Corpus[int](Random(0))
    for number in range(2_000):
        corpus.keep(number)
    assert len(corpus) < 2_000
    assert 0 <= corpus.pick() < 2_000


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_every_kind_that_are_made_can_be_read(kind: type) -> None:
    rng = Random(1)
    made = [encode_frame(any_frame(rng, kind, odd_share=0.0)) for _ in range(20)]
    assert len(list(FrameReader().feed(b"".join(made)))) == 20


def test_a_file_that_is_refused_in_a_sentence_is_no_fault(tmp_path: Path) -> None:
    overlay_files.try_file(tmp_path / "overlay.toml", b"overlay = 1")
