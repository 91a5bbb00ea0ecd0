"""The way of a message as a client is told it: asked for, read from the broker's answer, and put into a tree."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TypeAlias

import msgspec

from penstock.model.message_id import InvalidMessageIdError, MessageId
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import Frame, TraceReply, TraceRequest
from penstock.session.changes import Reply
from penstock.tracking.answers import Hop, Trace

__all__ = ["HopNode", "hop_trees", "read_trace", "trace"]

Asking: TypeAlias = Callable[[Callable[[int], Frame]], Awaitable[Reply]]


@dataclass(slots=True)
class HopNode:
    """One broker on the way of a message, with those that the message reached by it."""

    hop: Hop
    children: list[HopNode] = field(default_factory=list)

    def __iter__(self) -> Iterator[HopNode]:
        """Itself and all below, each before its children."""
        yield self
        for child in self.children:
            yield from child


async def trace(ask: Asking, message_id: MessageId | str) -> Trace:
    """Ask for the way of a message; a text must be an identifier (``InvalidMessageIdError``)."""
    wanted = MessageId.parse(message_id) if isinstance(message_id, str) else message_id
    answer = await ask(lambda number: TraceRequest(number, wanted.to_bytes()))
    assert isinstance(answer, TraceReply), f"not an answer to this: {answer}"
    found = read_trace(answer.trace)
    if found.message_id != wanted:
        raise ProtocolError(f"the broker traced {found.message_id}, not {wanted}")
    return found


def read_trace(data: bytes) -> Trace:
    """The trace of which this is the JSON; raises ``ProtocolError`` if it is none."""
    try:
        told = msgspec.json.decode(data, type=dict[str, object])
        message_id = MessageId.parse(str(told.get("message_id")))
        return msgspec.convert({**told, "message_id": asdict(message_id)}, Trace)
    except (msgspec.DecodeError, InvalidMessageIdError) as error:
        raise ProtocolError(f"the broker's answer is no trace: {error}") from None


def hop_trees(found: Trace) -> list[HopNode]:
    """The hops below those they came from: one tree, or more if some could not be joined to it."""
    nodes = {hop.broker: HopNode(hop) for hop in found.hops}
    roots = []
    for hop in found.hops:
        parent = nodes.get(hop.parent or "")
        if parent is None or _leads_to(hop.broker, hop.parent, nodes):
            roots.append(nodes[hop.broker])
        else:
            parent.children.append(nodes[hop.broker])
    return roots


def _leads_to(broker: str, parent: str | None, nodes: dict[str, HopNode]) -> bool:
    """Whether the parents of a broker go round in a circle back to it, as they may among brokers that are unsure."""
    seen: dict[str, None] = {}
    while parent is not None and parent in nodes and parent not in seen:
        if parent == broker:
            # Cut where the circle has its first name, so that each circle is cut once.
            return broker == min((broker, *seen))
        seen[parent] = None
        parent = nodes[parent].hop.parent
    return False
