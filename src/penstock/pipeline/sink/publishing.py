"""The sink's connection to a broker of the overlay, under the writer's identity, a few rows at a time.

Any broker will do: it carries rows to the brokers of their pubends. If it dies, the client goes on at another address
and sends again whatever may have been lost; pubends deduplicate by identity and number.

Only the rows of one chunk are in flight at a time. For each pubend the client stops at a row that is refused: the
pubend has the rows before it and none after it, so numbers stay valid, and rows that are sent again are recognised.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from penstock.client.client import Client, connect
from penstock.client.sync import SyncClient
from penstock.model.message import Message
from penstock.pipeline.sink.errors import SinkError, SinkOptionError
from penstock.pipeline.sink.staging import Row
from penstock.pipeline.source.link import tls_context
from penstock.pipeline.source.options import Connecting, read_token
from penstock.session.errors import (
    ClientError,
    ConnectionFailedError,
    RefusedError,
    UnknownPubendError,
    WouldBlockError,
)
from penstock.session.settings import ClientSettings

__all__ = ["OverlayPublishing", "Writer", "publishing_at"]

_FRAME_BYTES: Final = 512 * 1024
_LINGER_MS: Final = 250
"""Long enough for rows published together to share a frame, unless the broker accepts less at a time."""
_PAUSE_S: Final = 0.25
_SHOWN_MAX: Final = 20
"""Most pubends that an error names."""
_LOOK_S: Final = 1.0
"""How often to look whether pubends that are waited for can be reached."""


@dataclass(slots=True, frozen=True)
class Writer:
    """Whose rows are published, and what of them was published before."""

    identity: bytes
    overlay: str
    """Brokers of other overlays are refused; empty if this is the first connection."""
    published: Mapping[str, int]
    """For each pubend of the rows to come, how many rows were published to it."""


class OverlayPublishing:
    """Publishes to pubends of one overlay."""

    def __init__(self, client: SyncClient, inner: Client, overlay: str, *, patience_s: float) -> None:
        """``inner`` is the client that the blocking one runs in its thread."""
        self._client, self._inner = client, inner
        self._patience_s = patience_s
        self.overlay = overlay

    def publish(self, rows: Sequence[Row]) -> None:
        """Publish rows under the next numbers of their pubends; returns once all are durable."""
        parts: dict[str, list[Message]] = {}
        for pubend, message in rows:
            parts.setdefault(pubend, []).append(message)
        where = f"rows for {'pubend' if len(parts) == 1 else 'pubends'} {', '.join(parts)}"
        try:
            self._client.call(lambda: self._send_watched(parts))
        except UnknownPubendError as error:
            raise SinkOptionError(str(error)) from None
        except RefusedError as error:
            raise SinkError(f"broker {self._client.broker} refuses {where}: {error}") from None
        except ClientError as error:
            raise SinkError(f"{where} wait to be published: {error}") from None

    async def _send_watched(self, parts: Mapping[str, list[Message]]) -> None:
        """Publish, but give up if a pubend stays out of reach: the connection alone would not show that."""
        sending = asyncio.ensure_future(self._send(parts))
        watching = asyncio.ensure_future(self._watch(parts))
        try:
            await asyncio.wait({sending, watching}, return_when=asyncio.FIRST_COMPLETED)
            await (sending if sending.done() else watching)
        finally:
            sending.cancel()
            watching.cancel()
            # Retrieves their errors, or asyncio complains that nobody did.
            await asyncio.gather(sending, watching, return_exceptions=True)

    async def _watch(self, pubends: Iterable[str]) -> None:
        """Fail when a pubend has been out of reach for too long."""
        reached_s = time.monotonic()
        while True:
            await asyncio.sleep(_LOOK_S)
            away: list[str] = []
            # Without an answer nobody knows; the client itself gives up if it has no connection.
            with suppress(ClientError):
                unreachable = (await self._inner.survey()).unreachable
                away = [pubend for pubend in pubends if pubend in unreachable]
            if not away:
                reached_s = time.monotonic()
            elif time.monotonic() - reached_s >= self._patience_s:
                raise ConnectionFailedError(
                    f"pubend {away[0]} has been out of reach of broker {self._inner.broker} for {self._patience_s:g} s"
                )

    async def _send(self, parts: Mapping[str, list[Message]]) -> None:
        _check_guaranteed(self._inner, parts)
        for pubend, messages in parts.items():
            await self._inner.publish_many(messages, pubend=pubend)
        await self._inner.flush()


@contextmanager
def publishing_at(connecting: Connecting, writer: Writer) -> Iterator[OverlayPublishing]:
    """Connect to one of the brokers for as long as the block lasts; waits until it knows all pubends of the writer."""
    patience_s = connecting.retry_ms / 1000
    deadline_s = time.monotonic() + patience_s
    # Brokers bind an identity to the client that uses it: a client without credentials is known by its name.
    name = f"spark-sink-{writer.identity.hex()[:16]}"
    overlay = writer.overlay or _overlay_at(connecting, name, deadline_s)
    settings = ClientSettings(
        linger_ms=_LINGER_MS,
        batch_bytes=_FRAME_BYTES,
        connect_ms=connecting.connect_ms,
        connect_timeout_ms=0,
        give_up_ms=connecting.retry_ms,
        publisher=writer.identity,
        published=writer.published,
        stop_at_refusal=True,
    )
    # The overlay is fixed from here on: of several addresses one might belong to another, which has none of the rows.
    with _connected(connecting, settings, (name, overlay), deadline_s) as (client, inner):
        _await_pubends(client, inner, writer.published, deadline_s)
        yield OverlayPublishing(client, inner, overlay, patience_s=patience_s)


def _overlay_at(connecting: Connecting, name: str, deadline_s: float) -> str:
    """The name of the overlay that the brokers are in."""
    settings = ClientSettings(connect_ms=connecting.connect_ms, connect_timeout_ms=0, give_up_ms=connecting.retry_ms)
    while True:
        with _connected(connecting, settings, (name, ""), deadline_s) as (client, _):
            try:
                return client.status().overlay
            except ConnectionFailedError as error:
                if time.monotonic() >= deadline_s:
                    raise SinkError(str(error)) from None


@contextmanager
def _connected(
    connecting: Connecting, settings: ClientSettings, who: tuple[str, str], deadline_s: float
) -> Iterator[tuple[SyncClient, Client]]:
    """Connect to the first broker that answers, by name and overlay; tries all of them again until the deadline."""
    name, overlay = who
    while True:
        token, context = read_token(connecting), tls_context(connecting)
        inner = connect(connecting.broker, token=token, name=name, overlay=overlay, tls=context, settings=settings)
        client = SyncClient(inner)
        try:
            client.open()
            break
        except RefusedError as error:
            raise SinkError(str(error)) from None
        except ConnectionFailedError as error:
            if time.monotonic() >= deadline_s:
                raise SinkError(f"no broker can be reached: {error}") from None
        time.sleep(_PAUSE_S)
    try:
        yield client, inner
    finally:
        client.close(flush=False)


def _await_pubends(client: SyncClient, inner: Client, pubends: Iterable[str], deadline_s: float) -> None:
    """Wait until the broker knows these pubends: one that has just started may not have heard of all brokers."""

    async def unknown() -> list[str]:
        missing = [pubend for pubend in pubends if pubend not in inner.pubends]
        for pubend in missing:
            # Nothing is sent to a pubend that is not known, but only this tells whether it does not exist.
            with suppress(WouldBlockError):
                inner.publish_nowait({}, pubend=pubend)
        return missing

    while True:
        try:
            missing = client.call(unknown)
        except UnknownPubendError as error:
            raise SinkOptionError(str(error)) from None
        except ClientError as error:
            raise SinkError(str(error)) from None
        if not missing:
            break
        if time.monotonic() >= deadline_s:
            known = _listed(inner.pubends)
            raise SinkError(
                f"broker {inner.broker} cannot reach pubend {missing[0]!r}, if there is one; it knows: {known}"
            )
        time.sleep(_PAUSE_S)
    _check_guaranteed(inner, pubends)


def _check_guaranteed(inner: Client, pubends: Iterable[str]) -> None:
    """Refuse pubends that cannot recognise repetitions; those that are out of reach are waited for."""
    for pubend in pubends:
        place = inner.pubends.get(pubend)
        if place is not None and not place.is_guaranteed:
            good = _listed(name for name, each in inner.pubends.items() if each.is_guaranteed)
            raise SinkOptionError(f"pubend {pubend!r} is best effort and cannot deduplicate; guaranteed are: {good}")


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:_SHOWN_MAX]) + (", ..." if len(ordered) > _SHOWN_MAX else "") or "none"
