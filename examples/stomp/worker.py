"""Jobs over a queue, with stomp.py: send some, and have any number of workers do them, each job by one worker.

    pip install stomp.py
    python worker.py send 20
    python worker.py work
    python worker.py work                              # another one, in another terminal: they share the jobs
    python worker.py work 10.0.0.1:61613,10.0.0.2:61613    # the brokers to try, in turn

Kill workers and brokers as you like: no job is lost. A worker that is killed between doing a job and saying so leaves
that job to be done again, and ``redelivered`` tells.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time

import stomp

QUEUE = "/queue/thumbnails"
LOGIN, PASSCODE = "", ""  # the name and token of a client, if the broker asks for them
HEARTBEATS = (10_000, 10_000)  # how often we send one and want one, in milliseconds
RETRY_S = 1.0


class Sender(stomp.ConnectionListener):
    """Keeps what it has sent until the broker has promised to keep it."""

    def __init__(self) -> None:
        self.jobs: dict[str, str] = {}
        self.changed = threading.Event()

    def on_receipt(self, frame: stomp.utils.Frame) -> None:
        """A job is on a disk now, and will be done whatever crashes."""
        self.jobs.pop(frame.headers["receipt-id"], None)
        self.changed.set()

    def on_disconnected(self) -> None:
        """The connection is gone: nobody knows what became of jobs without a receipt."""
        self.changed.set()


class Worker(stomp.ConnectionListener):
    """Does jobs, one after the other."""

    def __init__(self, connection: stomp.Connection12) -> None:
        self.connection = connection
        self.gone = threading.Event()

    def on_message(self, frame: stomp.utils.Frame) -> None:
        """Do a job, and say so."""
        again = " again" if frame.headers.get("redelivered") == "true" else ""
        print(f"doing {frame.body}{again}", flush=True)
        time.sleep(0.05)  # the work
        # Until the receipt for this is here the job may come again, should we or the broker die.
        # If a job cannot be done now, connection.nack(frame.headers["ack"]) gives it back.
        self.connection.ack(frame.headers["ack"], receipt=f"done {frame.body}")

    def on_receipt(self, frame: stomp.utils.Frame) -> None:
        """A job counts as done: nobody gets it any more."""
        print(frame.headers["receipt-id"], flush=True)

    def on_error(self, frame: stomp.utils.Frame) -> None:
        """Something was wrong; the broker closes the connection after this."""
        print("the broker says:", frame.headers.get("message"), file=sys.stderr, flush=True)

    def on_disconnected(self) -> None:
        """The connection is gone: what we have not acknowledged goes to others."""
        self.gone.set()


def connected(brokers: list[tuple[str, int]], listener: stomp.ConnectionListener | None = None) -> stomp.Connection12:
    """Connect to the first broker that answers, however long that takes."""
    while True:
        connection = stomp.Connection12(brokers, heartbeats=HEARTBEATS, reconnect_attempts_max=1)
        connection.set_listener("", listener or Worker(connection))
        try:
            connection.connect(LOGIN, PASSCODE, wait=True)
            return connection
        except stomp.exception.StompException:
            time.sleep(RETRY_S)


def send(brokers: list[tuple[str, int]], count: int) -> None:
    """Send jobs, and again those without a receipt if the connection ends."""
    sender = Sender()
    sender.jobs = {f"receipt-{number}": f"photo-{number}.png" for number in range(count)}
    while sender.jobs:
        connection = connected(brokers, sender)
        for receipt, photo in list(sender.jobs.items()):
            # Headers are attributes of the message: pixels becomes a number, by which others can select it.
            connection.send(QUEUE, photo, content_type="text/plain", headers={"pixels": "4000000", "receipt": receipt})
        while sender.jobs and connection.is_connected():
            sender.changed.wait(RETRY_S)
            sender.changed.clear()
    connection.disconnect()
    print(f"sent {count} jobs", flush=True)


def work(brokers: list[tuple[str, int]]) -> None:
    """Work until interrupted; when the connection ends, connect again."""
    while True:
        connection = connected(brokers)
        # client-individual: each ACK is for one message. prefetch-count: how many jobs may wait here for us.
        connection.subscribe(QUEUE, id="1", ack="client-individual", headers={"prefetch-count": "5"})
        worker = connection.get_listener("")
        assert isinstance(worker, Worker)
        worker.gone.wait()


def main() -> None:
    """Read the command line."""
    command, *rest = sys.argv[1:] or ["work"]
    count = int(rest.pop(0)) if command == "send" else 0
    addresses = (rest or ["127.0.0.1:61613"])[0].split(",")
    brokers = [(host, int(port)) for host, _, port in (each.rpartition(":") for each in addresses)]
    with contextlib.suppress(KeyboardInterrupt):
        if command == "send":
            send(brokers, count)
        else:
            work(brokers)


if __name__ == "__main__":
    main()
