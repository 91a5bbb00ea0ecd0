"""The sink's connection to the broker of the pubend, under the writer's identity, one frame at a time.

Only the rows of one frame are in flight at a time. The client stops at a row that the broker refuses: the broker has
the rows before it and none after it, so numbers stay valid, and it deduplicates rows that are sent again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from penstock.client.client import Client, connect
from penstock.client.sync import SyncClient
from penstock.model.message import Message
from penstock.pipeline.sink.errors import SinkError, SinkOptionError
from penstock.pipeline.source.link import tls_context
from penstock.pipeline.source.options import Connecting, read_token
from penstock.session.address import parse_addresses
from penstock.session.errors import ClientError, ConnectionFailedError, RefusedError
from penstock.session.settings import ClientSettings

__all__ = ["OverlayPublishing", "publishing_at"]

_FRAME_BYTES: Final = 512 * 1024
_LINGER_MS: Final = 250
"""Long enough for rows published together to share a frame, unless the broker accepts less at a time."""
_PAUSE_S: Final = 0.25


class OverlayPublishing:
    """Publishes to one pubend of one broker."""

    def __init__(self, client: SyncClient, pubend: str, overlay: str) -> None:
        self._client, self._pubend = client, pubend
        self.overlay = overlay

    def publish(self, messages: Sequence[Message]) -> None:
        """Publish messages under the next numbers; returns once the broker has them durably."""
        try:
            self._client.publish_many(messages, pubend=self._pubend)
            self._client.flush()
        except RefusedError as error:
            where = f"broker {self._client.broker} refuses rows for pubend {self._pubend}"
            raise SinkError(f"{where}: {error}") from None
        except ClientError as error:
            raise SinkError(f"rows for pubend {self._pubend} wait to be published: {error}") from None


@contextmanager
def publishing_at(connecting: Connecting, pubend: str, identity: bytes, published: int) -> Iterator[OverlayPublishing]:
    """Connect, for as long as the block lasts, to whichever of the brokers has the pubend."""
    settings = ClientSettings(
        linger_ms=_LINGER_MS,
        batch_bytes=_FRAME_BYTES,
        connect_ms=connecting.connect_ms,
        give_up_ms=connecting.retry_ms,
        publisher=identity,
        published=published,
        stop_at_refusal=True,
    )
    client = _found(connecting, pubend, settings)
    try:
        yield OverlayPublishing(client, pubend, _overlay(client, pubend))
    finally:
        client.close(flush=False)


def _found(connecting: Connecting, pubend: str, settings: ClientSettings) -> SyncClient:
    """Connect to the broker that has the pubend; retries unreachable brokers for a while."""
    deadline_s = time.monotonic() + connecting.retry_ms / 1000
    while True:
        known: list[str] = []
        failure = ""
        for address in parse_addresses(connecting.broker):
            at_one = replace(connecting, broker=str(address))
            inner = _client(at_one, settings)
            client = SyncClient(inner)
            try:
                client.open()
            except ConnectionFailedError as error:
                failure = str(error)
                continue
            if pubend in inner.pubends:
                return client
            known += inner.pubends
            client.close(flush=False)
        if not failure:
            raise SinkOptionError(
                f"no broker at {connecting.broker} has pubend {pubend!r}; they have: {', '.join(known) or 'none'}"
            )
        if time.monotonic() >= deadline_s:
            raise SinkError(f"no broker with pubend {pubend} can be reached: {failure}")
        time.sleep(_PAUSE_S)


def _client(connecting: Connecting, settings: ClientSettings) -> Client:
    # Brokers bind an identity to the client that uses it: a client without credentials is known by its name.
    name = f"spark-sink-{settings.publisher.hex()[:16]}"
    token, context = read_token(connecting), tls_context(connecting)
    return connect(connecting.broker, token=token, name=name, tls=context, settings=settings)


def _overlay(client: SyncClient, pubend: str) -> str:
    """The overlay's name; checks that the pubend is guaranteed."""
    survey = client.survey()
    if pubend not in survey.spans and pubend not in survey.unreachable:
        raise SinkOptionError(f"pubend {pubend!r} is best effort and cannot deduplicate: use a guaranteed pubend")
    return client.status().overlay
