"""Workers of each protocol take jobs, acknowledge each by itself, and notice a job that comes again."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from bench.live_driver import DriverError
from bench.peers import amqp, jetstream, nats_server
from bench.peers import penstock as penstock_peer
from bench.peers.message import PeerMessage
from bench.peers.mosquitto import Mosquitto
from bench.peers.peer import Service
from bench.peers.penstock import PenstockPeer, PenstockWorker
from bench.peers.working import PREFETCH, measure_work, work_title

from penstock.protocol.codec import FrameReader, encode_frame
from penstock.protocol.frames import Handed, Join, Outcomes, Verdicts
from penstock.protocol.work_frames import Outcome, Verdict

MESSAGE = PeerMessage("t", {"a": "x"}, b"packed")


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Our end, which every worker gets as its connection, and the broker's."""
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(jetstream, "connected", lambda _port: ours)
    with closing(ours), closing(theirs):
        yield ours, theirs


def amqp_job(tag: int) -> bytes:
    deliver = amqp.method(60, 60, amqp.short("w") + tag.to_bytes(8) + b"\0" + amqp.short("") + amqp.short("t"))
    return deliver + b"\x02\0\1\0\0\0\x0e" + bytes(14) + b"\xce" + b"\x03\0\1\0\0\0\x03job\xce"


def amqp_acknowledgement(tag: int) -> bytes:
    return amqp.method(60, 80, tag.to_bytes(8) + b"\0")


def test_a_worker_of_amqp_consumes_and_acknowledges_each_job_by_itself(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    worker = amqp.AmqpWorker(ends[0], "q", "w")
    assert ends[1].recv(100) == amqp.method(60, 20, b"\0\0\1q\1w\x08" + bytes(4))
    stream = amqp_job(1) + amqp_job(2)
    for part in (stream[:50], stream[50:]):
        ends[1].sendall(part)
        worker.on_readable()
    assert worker.done == 2
    assert ends[1].recv(100) == amqp_acknowledgement(1) + amqp_acknowledgement(2)


def jetstream_job(sequence: int, *, delivered: int = 1) -> bytes:
    subject = b"$JS.ACK.t.workers.%d.%d.%d.1700.0" % (delivered, sequence, sequence)
    return b"MSG t 1 %b 3\r\njob\r\n" % subject


def test_a_worker_of_jetstream_asks_for_jobs_acknowledges_each_and_asks_for_more_when_half_are_done(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    worker = jetstream.JetStreamWorker(0, "w", "t", 4)
    question = b"PUB $JS.API.CONSUMER.MSG.NEXT.t.workers inbox.w 11\r\n"
    assert ends[1].recv(1_000).endswith(b"SUB inbox.w 1\r\n" + question + b'{"batch":4}\r\n')
    stream = jetstream_job(1) + jetstream_job(2)
    ends[1].sendall(stream[:60])
    worker.on_readable()
    assert ends[1].recv(1_000) == b"PUB $JS.ACK.t.workers.1.1.1.1700.0 4\r\n+ACK\r\n"
    ends[1].sendall(stream[60:])
    worker.on_readable()
    second = b"PUB $JS.ACK.t.workers.1.2.2.1700.0 4\r\n+ACK\r\n"
    assert ends[1].recv(1_000) == second + question + b'{"batch":2}\r\n'
    assert worker.done == 2


def test_a_job_that_comes_again_by_jetstream_is_noticed(ends: tuple[socket.socket, socket.socket]) -> None:
    worker = jetstream.JetStreamWorker(0, "w", "t", 4)
    ends[1].sendall(jetstream_job(1, delivered=2))
    with pytest.raises(DriverError, match="again"):
        worker.on_readable()


def test_the_stream_acknowledges_what_a_publisher_sends(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[1].sendall(b"PONG\r\n")
    publisher = jetstream.JetStreamPublisher(0)
    ring = nats_server.NatsServer().ring([MESSAGE], Service.WORK)
    assert ring.frame(1, 0, 1, 0).startswith(b"PUB t inbox.acks 14\r\npacked")
    credit = publisher.credit
    publisher.send(ring, 0, 1)
    ends[1].sendall(b"MSG inbox.acks 1 27\r\n")
    publisher.on_readable()
    assert publisher.acknowledged == 0
    ends[1].sendall(b'{"stream": "t", "seq": 1   }\r\n'[:27] + b"\r\n")
    publisher.on_readable()
    assert (publisher.acknowledged, publisher.credit) == (1, credit)


class FakeConnection:
    """Stands for a connection that was welcomed."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._reader = FrameReader()

    def read(self) -> list[object]:
        return list(self._reader.feed(self.socket.recv(65_536)))


def penstock_worker(connected: socket.socket, monkeypatch: pytest.MonkeyPatch) -> PenstockWorker:
    monkeypatch.setattr(penstock_peer, "Connection", lambda _port, _name: FakeConnection(connected))
    return PenstockWorker(0, "w", 4)


def test_a_worker_of_penstock_counts_a_job_when_the_broker_says_that_it_is_durable(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, reader = penstock_worker(ends[0], monkeypatch), FrameReader()
    (join,) = reader.feed(ends[1].recv(1_000))
    assert isinstance(join, Join)
    assert join.prefetch == 4
    ends[1].sendall(encode_frame(Handed("p", "", bytes(8), (1, 1, 1, 1), [5, 6], [1, 1], [b"x", b"y"])))
    worker.on_readable()
    assert worker.done == 0
    done = int(Verdict.DONE)
    assert list(reader.feed(ends[1].recv(1_000))) == [Verdicts(1, "p", ((5, 1, done, 0, ""), (6, 1, done, 0, "")))]
    ends[1].sendall(encode_frame(Outcomes(1, "p", ((5, 1, done, Outcome.KEPT), (6, 1, done, Outcome.KEPT)))))
    worker.on_readable()
    assert worker.done == 2


@pytest.mark.parametrize(("ticks", "attempt"), [([6, 7], 2), ([5], 1)])
def test_a_job_that_comes_again_from_penstock_is_noticed(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch, ticks: list[int], attempt: int
) -> None:
    worker = penstock_worker(ends[0], monkeypatch)
    ends[1].sendall(encode_frame(Handed("p", "", bytes(8), (1, 1, 1, 1), [5], [1], [b"x"])))
    worker.on_readable()
    count = len(ticks)
    ends[1].sendall(encode_frame(Handed("p", "", bytes(8), (1, 1, 1, 2), ticks, [attempt] * count, [b"x"] * count)))
    with pytest.raises(DriverError, match="again"):
        worker.on_readable()


def test_an_acknowledgement_that_does_not_count_is_an_error(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = penstock_worker(ends[0], monkeypatch)
    ends[1].sendall(encode_frame(Outcomes(1, "p", ((5, 1, int(Verdict.DONE), Outcome.LOST),))))
    with pytest.raises(DriverError, match="did not take"):
        worker.on_readable()


def test_a_peer_without_work_queues_says_so() -> None:
    with pytest.raises(NotImplementedError, match="mosquitto has no work queues"):
        Mosquitto().worker(0, "w", "t", PREFETCH)


@pytest.mark.live
def test_the_work_queue_of_penstock_can_be_measured() -> None:
    figures = measure_work(PenstockPeer(), 500, seed=0)
    assert figures["jobs_per_s"] > 0
    assert figures["publish_per_s"] > 0
    assert work_title(500) == "500 jobs, 8 workers"
