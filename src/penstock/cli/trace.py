"""``penstock trace``: shows the origin, path and receivers of a message as a tree ([Tracking] 3.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer
from rich.console import Console as RichConsole
from rich.text import Text
from rich.tree import Tree

from penstock.cli.connecting import Authority, Certificate, ClientName, Key, Party, Token
from penstock.cli.console import FAILURE, Printable, console, printable_json
from penstock.model.message_id import MessageId
from penstock.session.address import DEFAULT_PORT
from penstock.session.errors import ConnectionFailedError
from penstock.system.loop import run
from penstock.tracking.answers import Evidence, GapSeen, Hop, Trace, trace_json

if TYPE_CHECKING:
    from penstock.client.tracing import HopNode

__all__ = ["EXAMPLES", "shown_trace", "trace"]

EXAMPLES = """
Ends with 1 if no broker has the message on record, with 2 if the text is no identifier.

Examples:

- `penstock trace 000000E000000G38EZKKWT0000`
- `penstock trace 000000E000000G38EZKKWT0000 --broker penstock://127.0.0.1:7001 --json | jq .receivers`
"""

_ANSWER_S: Final = 60.0
_FILE_COLUMNS: Final = 120
_TIME_MS_MAX: Final = 253_402_300_800_000
"""The year 10,000, from which on times cannot be formatted."""


def trace(
    message_id: Annotated[
        str, typer.Argument(metavar="ID", help="The identifier, as subscribers and publishers see it.")
    ],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    broker: Annotated[
        str, typer.Option(metavar="URL", help="The broker that is asked; it asks the others.")
    ] = f"penstock://127.0.0.1:{DEFAULT_PORT}",
    token: Token = "",
    name: ClientName = "",
    ca: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Show where a message came from, which brokers it passed and which subscribers received it.

    The output says how probable an error is, and names the records that may be missing.
    """
    wanted = MessageId.parse(message_id)
    found = run(_ask(wanted, broker, Party(token, name, ca, certificate, key)))
    if as_json:
        console.line(printable_json(msgspec.json.format(trace_json(found), indent=2)))
    else:
        printer = RichConsole(highlight=False)
        if not printer.is_terminal:
            printer = RichConsole(highlight=False, width=_FILE_COLUMNS)
        printer.print(Printable(shown_trace(found)))
    for line in _doubts(found):
        console.note(line)
    if not found.routed_by:
        console.fail(f"message {wanted} {_absence(found)}", FAILURE)


async def _ask(message_id: MessageId, url: str, party: Party) -> Trace:
    try:
        async with party.client(url) as client, asyncio.timeout(_ANSWER_S):
            return await client.trace(message_id)
    except TimeoutError:
        raise ConnectionFailedError(f"the broker did not answer within {_ANSWER_S:.0f} s") from None


def shown_trace(found: Trace) -> Tree:
    """The path of a message, as a tree to be printed."""
    from penstock.client.tracing import hop_trees

    tree = Tree(Text(f"message {found.message_id}", style="bold"))
    tree.add(Text(f"published {_time(found.message_id.timestamp_ms)} by publisher {found.message_id.publisher:,}"))
    for node in hop_trees(found):
        _grow(tree, node)
    receivers = len(found.receivers)
    tree.add(
        Text(
            f"{receivers:,} {'receiver' if receivers == 1 else 'receivers'}; {found.asked:,} brokers answered; "
            f"anything here is wrong with a probability of at most {found.error_probability:.2g}",
            style="dim",
        )
    )
    return tree


def _grow(tree: Tree, node: HopNode) -> None:
    branch = tree.add(_label(node.hop))
    answer = node.hop.answer
    for receiver in answer.receivers if answer is not None else ():
        branch.add(Text(f"→ {receiver}", style="green"))
    for child in node.children:
        _grow(branch, child)


def _label(hop: Hop) -> Text:
    label = Text(hop.broker, style="bold")
    return label.append(f"  {_role(hop)}", style="not bold" if hop.is_counted else "not bold yellow")


def _role(hop: Hop) -> str:
    answer = hop.answer
    if answer is None:
        return "could not be asked"
    if hop.claim is Evidence.GAP:
        return f"may have had it: its records have a gap ({', '.join(dict.fromkeys(g.reason for g in answer.gaps))})"
    if hop.claim is Evidence.UNKNOWN:
        return "may have had it: it has no records of that time"
    if not hop.is_counted:
        return "claims it, but cannot have got it: probably a false positive"
    roles = []
    if answer.published is Evidence.YES:
        roles.append("published")
    if answer.routed is Evidence.YES:
        roles.append("routed")
    if answer.delivered is Evidence.YES:
        roles.append("delivered")
    if answer.expired:
        roles.append("expired")
    if answer.delivered in (Evidence.GAP, Evidence.UNKNOWN):
        roles.append("deliveries unknown")
    return ", ".join(roles)


def _doubts(found: Trace) -> Iterator[str]:
    """Reasons why the trace may be incomplete or surprising."""
    if found.published_at is not None and found.published_at != found.origin:
        yield f"its id names broker {found.origin}; it was published again at {found.published_at}"
    if found.unreachable:
        yield f"could not be asked: {', '.join(found.unreachable)}"
    if found.unknown:
        yield f"no records of that time: {', '.join(found.unknown)}"
    for gap in found.gaps:
        yield f"gap at {gap.broker} in {gap.history} ({gap.reason}){_span(gap)}"
    if found.is_truncated:
        yield "there were more brokers than may be asked"


def _absence(found: Trace) -> str:
    if found.is_complete:
        return f"was never at broker {found.origin}, which its id names, nor anywhere else that was asked"
    return "is not on record, but some records are missing, so it may have been sent"


def _span(gap: GapSeen) -> str:
    return "" if gap.span is None else f", messages from {_time(gap.span[0])} to {_time(gap.span[1])}"


def _time(ms: int) -> str:
    """A timestamp for people; an id may contain any number."""
    if not 0 <= ms < _TIME_MS_MAX:
        return f"{ms} ms"
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(sep=" ", timespec="milliseconds").replace("+00:00", " UTC")
