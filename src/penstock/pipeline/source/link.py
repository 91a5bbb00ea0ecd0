"""The source's connection to its broker: opened on first use, kept while it works, never sent to tasks."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from penstock.client.client import connect
from penstock.client.sync import SyncClient
from penstock.live.tls import TlsFiles, client_context
from penstock.pipeline.source.options import Connecting, read_token
from penstock.pipeline.source.probing import LogClient
from penstock.session.errors import ClientError, ConnectionFailedError
from penstock.session.settings import ClientSettings

__all__ = ["Link", "Linked", "opened", "tls_context"]

_PAUSE_FIRST_S: Final = 0.05
_PAUSE_MAX_S: Final = 2.0


class Linked(Protocol):
    """The connection that a stream needs."""

    def client(self) -> AbstractContextManager[LogClient]:
        """The connection."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@contextmanager
def opened(connecting: Connecting) -> Iterator[SyncClient]:
    """Open a connection for as long as the block lasts; retries until the retry timeout."""
    client = _open(connecting)
    try:
        yield client
    finally:
        client.close(flush=False)


class Link:
    """A connection that lives as long as its owner; pickling drops it, and the copy opens its own."""

    def __init__(self, connecting: Connecting) -> None:
        self._connecting = connecting
        self._client: SyncClient | None = None

    @contextmanager
    def client(self) -> Iterator[SyncClient]:
        """The connection; an error closes it, so that the next use opens a new one."""
        if self._client is None:
            self._client = _open(self._connecting)
        try:
            yield self._client
        except ClientError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, if there is one."""
        client, self._client = self._client, None
        if client is not None:
            client.close(flush=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"_connecting": self._connecting, "_client": None}


def _open(connecting: Connecting) -> SyncClient:
    deadline_s = time.monotonic() + connecting.retry_ms / 1000
    pause_s = _PAUSE_FIRST_S
    while True:
        try:
            return _client(connecting).open()
        except ConnectionFailedError as error:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                tried = f"tried for {connecting.retry_ms} ms (option retryTimeoutMs)"
                raise ConnectionFailedError(f"no broker can be reached, {tried}: {error}") from None
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _PAUSE_MAX_S)


def _client(connecting: Connecting) -> SyncClient:
    # It is tried again by the caller, which may read another token then.
    settings = ClientSettings(connect_ms=connecting.connect_ms, connect_timeout_ms=0, give_up_ms=connecting.retry_ms)
    token, context = read_token(connecting), tls_context(connecting)
    return SyncClient(connect(connecting.broker, token=token, tls=context, settings=settings))


def tls_context(connecting: Connecting) -> ssl.SSLContext | None:
    """The TLS context that verifies the broker, if the options ask for TLS."""
    if not connecting.ca:
        return None
    certificate, key = (Path(each) if each else None for each in (connecting.certificate, connecting.key))
    return client_context(TlsFiles(Path(connecting.ca), certificate, key))
