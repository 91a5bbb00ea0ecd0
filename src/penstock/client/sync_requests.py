"""Requests to be answered by a blocking program."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Protocol, TypeVar

from penstock.client.requests import Request, Serving
from penstock.client.sync_subscription import SyncSubscription
from penstock.model.message import Payload
from penstock.model.values import Attributes, AttributeValue

__all__ = ["SyncRequest", "SyncServing"]

_Result = TypeVar("_Result")


class Caller(Protocol):
    """What these need from the blocking client."""

    def call(self, work: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        """Run a coroutine in the client's thread, and wait for it."""


class SyncRequest:
    """A request to be answered; made by ``client.serve(...)``."""

    def __init__(self, request: Request, caller: Caller) -> None:
        self._request, self._caller = request, caller

    @property
    def attributes(self) -> dict[str, AttributeValue]:
        """Attribute values by name, as the requester gave them."""
        return self._request.attributes

    @property
    def payload(self) -> bytes:
        """The content."""
        return self._request.payload

    @property
    def content_type(self) -> str:
        """The payload's media type; empty if the requester gave none."""
        return self._request.content_type

    def reply(
        self, attributes: Attributes | None = None, payload: Payload = b"", *, content_type: str = "", pubend: str = ""
    ) -> None:
        """Send the reply, once; returns before it has arrived."""
        self._caller.call(lambda: self._request.reply(attributes, payload, content_type=content_type, pubend=pubend))

    def fail(self, reason: str, *, pubend: str = "") -> None:
        """Let the request fail: the requester gets a ``RequestFailedError`` with this reason."""
        self._caller.call(lambda: self._request.fail(reason, pubend=pubend))

    def __repr__(self) -> str:
        return f"<Sync{repr(self._request)[1:]}"


class SyncServing:
    """The requests that match a selector, for a blocking program; one thread at a time may read from it."""

    def __init__(self, serving: Serving, caller: Caller, make: Callable[[Any], Request]) -> None:
        self._subscription = SyncSubscription(serving.subscription, caller)
        self._caller, self._make = caller, make

    def ready(self) -> SyncServing:
        """Wait until requests come from everywhere; raises ``RefusedError`` if the broker refuses the subscription."""
        self._subscription.ready()
        return self

    def close(self) -> None:
        """Serve no more."""
        self._subscription.close()

    def __iter__(self) -> SyncServing:
        return self

    def __next__(self) -> SyncRequest:
        return SyncRequest(self._make(next(self._subscription)), self._caller)

    def __enter__(self) -> SyncServing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._subscription.__exit__(kind, error, trace)
