"""Traces a message for a client: asks the broker, decodes its answer, and arranges the hops as a tree."""

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
    """One broker on the path of a message, and the brokers that the message reached through it."""

    hop: Hop
    children: list[HopNode] = field(default_factory=list)

    def __iter__(self) -> Iterator[HopNode]:
        """This node and all below it, each before its children."""
        yield self
        for child in self.children:
            yield from child


async def trace(ask: Asking, message_id: MessageId | str) -> Trace:
    """Ask for the trace of a message; raises ``InvalidMessageIdError`` for a text that is not an identifier."""
    wanted = MessageId.parse(message_id) if isinstance(message_id, str) else message_id
    answer = await ask(lambda number: TraceRequest(number, wanted.to_bytes()))
    assert isinstance(answer, TraceReply), f"not an answer to this: {answer}"
    found = read_trace(answer.trace)
    if found.message_id != wanted:
        raise ProtocolError(f"the broker traced {found.message_id}, not {wanted}")
    return found


def read_trace(data: bytes) -> Trace:
    """Decode a trace from JSON; raises ``ProtocolError`` if it is malformed."""
    try:
        told = msgspec.json.decode(data, type=dict[str, object])
        message_id = MessageId.parse(str(told.get("message_id")))
        return msgspec.convert({**told, "message_id": asdict(message_id)}, Trace)
    except (msgspec.DecodeError, InvalidMessageIdError) as error:
        raise ProtocolError(f"the broker sent a malformed trace: {error}") from None


def hop_trees(found: Trace) -> list[HopNode]:
    """Arrange the hops below those they came from: as one tree, or more if some cannot be connected to it."""
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
    """Whether to cut a cycle of parents at this broker; brokers that are unsure may name parents that form one."""
    seen: dict[str, None] = {}
    while parent is not None and parent in nodes and parent not in seen:
        if parent == broker:
            # Cut the cycle at its alphabetically first broker, so that each cycle is cut once.
            return broker == min((broker, *seen))
        seen[parent] = None
        parent = nodes[parent].hop.parent
    return False
