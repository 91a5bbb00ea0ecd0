"""Publishes with Penstock's blocking client, one message after the other, and reads in another thread beside it.

The client's own thread runs uvloop where it is installed, as it does for applications.
"""

from __future__ import annotations

import threading

import penstock
from bench.live_load import PAYLOAD_BYTES
from bench.peers.programs.frame import Run, main_without_loop


def publish_and_read(run: Run) -> dict[str, float]:
    """Publish everything while another thread reads; reading in this one could block both."""
    payload = bytes(PAYLOAD_BYTES)
    with penstock.connect_sync(f"penstock://127.0.0.1:{run.port}") as client:
        subscription = client.subscribe("TRUE").ready()
        run.begin()
        reader = threading.Thread(target=_read, args=(subscription, run.count))
        reader.start()
        for number in range(run.count):
            client.publish(run.ring[number % len(run.ring)].attributes, payload)
        client.flush()
        reader.join()
        return run.end()


def _read(subscription: penstock.SyncSubscription, count: int) -> None:
    for received, _ in enumerate(subscription, start=1):
        if received == count:
            return


if __name__ == "__main__":
    main_without_loop(publish_and_read)
