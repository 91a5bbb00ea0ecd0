"""Control frames that trace a message: a client asks its broker, which asks the others one by one."""

from __future__ import annotations

from typing import Annotated

import msgspec

from penstock.model.limits import BODY_BYTES_MAX
from penstock.protocol.control import NAMES_MAX, Control, Count, PlainName

__all__ = ["TraceAnswer", "TraceQuestion", "TraceReply", "TraceRequest"]

_Id = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]


class TraceRequest(Control, tag="trace", frozen=True, array_like=True):
    """A client asks where a message came from, which way it went, and who got it."""

    number: Count
    """The client's number of the request."""
    message_id: _Id


class TraceReply(Control, tag="tracereply", frozen=True, array_like=True):
    """The path of a message, as JSON."""

    number: Count
    trace: bytes


class TraceQuestion(Control, tag="traceask", frozen=True, array_like=True):
    """A broker asks another one what it knows of a message; the brokers in between forward it."""

    to: PlainName
    asker: PlainName
    number: Count
    """Lets the asker match the answer to its question."""
    message_id: _Id
    origins: Annotated[tuple[Count, ...], msgspec.Meta(max_length=NAMES_MAX)]
    """Numbers of the brokers where the message may have been published."""
    hops: Count = 0
    """How many brokers have forwarded the question."""


class TraceAnswer(Control, tag="tracetold", frozen=True, array_like=True):
    """What a broker knows of a message, on its way back."""

    to: PlainName
    number: Count
    answer: Annotated[bytes, msgspec.Meta(max_length=BODY_BYTES_MAX)]
    """The broker's answer, as msgpack."""
    hops: Count = 0
