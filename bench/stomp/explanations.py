"""Why a server does something else than a clause says, for the column of the table that explains differences."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

__all__ = ["EXPLANATIONS", "explanation"]

_ACTIVEMQ: Final = {
    "1.2/connect/known-versions-listed": "names its versions in the message of ERROR alone",
    "1.2/connect/unknown-login": "now and then closes before its ERROR is out",
    "*/heart-beat/server-beats": "leaves out a heart-beat now and then",
    "*/heart-beat/lateness-tolerated": "allows no margin, unless it is configured (transport.hbGracePeriodMultiplier)",
    "*/heart-beat": "allows no margin for heart-beats, and the timer of the library is a little late",
    "*/heart-beat/malformed": "takes numbers as they are, also a negative one",
    "1.2/frame/crlf-between": "passes over one CR LF after a frame, and takes a second one for a broken frame",
    "*/frame/undefined-escape": "leaves undefined escapes as they are",
    "1.1/frame/undefined-carriage-return": r"decodes \r in version 1.1, too",
    "*/frame/dangling-backslash": "leaves undefined escapes as they are",
    "*/frame/empty-name": "closes the connection without ERROR",
    "*/frame/no-colon": "passes over header lines without a colon",
    "*/frame/content-length-too-small": "delivers as much of the body as content-length says",
    "*/frame/content-length-negative": "reads the body up to the zero byte, as without content-length",
    "1.0/frame/no-escapes": "decodes escapes in version 1.0, too, and sends the line feed as it is",
    "*/message/content-length": "without content-length in SEND takes the body for text, and sends it without one",
    "1.2/message/line-feed-to-1-0": "sends the line feed as it is, which breaks the frame",
    "1.0/message/between-versions": "decodes escapes in version 1.0, too",
    "*/subscribe/id-taken": "accepts it; UNSUBSCRIBE ends the newer one alone",
    "*/subscribe/unknown-ack-mode": "takes every unknown mode for auto",
    "*/ack/ack-unknown": "closes without ERROR if the message-id does not have the form of its own",
    "*/ack/nack-unknown": "closes without ERROR if the message-id does not have the form of its own",
    "*/ack/nack-cumulative": "in every mode NACK concerns the one message",
    "*/transaction/nack": "refuses NACK in transactions",
    "*/error/closes": "goes on with the connection after most errors",
    "*/error/described": "ERROR has no content-length",
    "*/whole/errors-close": "goes on with the connection after most errors",
    "extension/selector/decimal-header-integer-literal": "reads the header as an integer, since the literal is one",
    "extension/selector/and-or-not": "its parser does not accept NOT before a comparison without parentheses",
    "extension/selector/arithmetic": "headers are texts, with which it does not calculate",
    "extension/header/headers-of-the-server": "closes without ERROR if timestamp, expires or priority are no numbers",
    "extension/queue/prefetch-count": "prefetch-count is a header of RabbitMQ",
    "extension/topic/*-refused": "takes any destination without a known prefix for the name of a queue",
    "extension/topic/no-name-refused": "closes without ERROR",
    "extension/durable/rabbitmq-*": "these are headers of RabbitMQ",
    "extension/nack/comes-again": "NACK makes a dead letter at once",
}

_RABBITMQ: Final = {
    "1.2/connect/no-common-version": "leaves the connection open after ERROR",
    "*/connect/no-host": "leaves the connection open after ERROR",
    "*/connect/unknown-host": "leaves the connection open after ERROR",
    "*/connect/wrong-passcode": "leaves the connection open after ERROR",
    "*/connect/no-escapes-in-connect": "decodes escapes in CONNECT, too, and closes without ERROR",
    "*/connect/second-connect": "closes without ERROR",
    "*/heart-beat/malformed": "takes a malformed header for none",
    "*/frame/undefined-escape": "closes without ERROR",
    "*/frame/dangling-backslash": "closes without ERROR",
    "*/frame/empty-name": "accepts it, and passes it on",
    "*/frame/no-colon": "closes without ERROR",
    "*/frame/content-length-*": "closes without ERROR",
    "1.1/frame/carriage-return-kept": "knows the line ends of version 1.2 alone, and closes without ERROR",
    "1.1/frame/undefined-carriage-return": "knows the escapes of version 1.2 alone",
    "1.0/frame/no-escapes": "decodes escapes in version 1.0, too, and closes without ERROR",
    "1.0/receipt/exact": "decodes escapes in version 1.0, too, and closes without ERROR",
    "*/message/receipt-not-passed-on": "passes it on",
    "*/message/between-versions": "escapes headers in version 1.0, too",
    "*/subscribe/no-id": "accepts it",
    "*/ack/client-one-subscription": "ACK holds for all subscriptions of the connection",
    "1.1/ack/ack-without-subscription": "needs the message-id alone",
    "1.1/ack/ack-wrong-subscription": "needs the message-id alone",
    "*/transaction/begun-twice": "accepts it",
    "*/error/closes": "goes on with the connection after most errors",
    "*/error/receipt-id": "ERROR has no receipt-id",
    "*/whole/grammar": "does not escape message-id, which contains the id of the subscription",
    "*/whole/errors-close": "goes on with the connection after most errors",
    "extension/selector/*": "has no selectors",
    "*/selector": "has no selectors",
    "stompman/error": "has no selectors, and so no malformed ones",
    "extension/header/expired-*": "knows a header expiration instead, in milliseconds from now",
    "extension/queue/activemq.prefetchSize": "this is a header of ActiveMQ",
    "extension/topic/exchange-refused": "has such destinations",
    "extension/topic/no-prefix-refused": "takes a name without a prefix for a queue",
    "extension/durable/activemq-*": "these are headers of ActiveMQ",
    "extension/durable/rabbitmq-selected": "has no selectors",
    "*/durable": "these are headers of ActiveMQ",
    "extension/websocket/foreign-origin": "lets pages of all origins in",
    "extension/websocket/binary-to-text-client": "sends frames of text, unless web_stomp.ws_frame is binary",
    "@stomp/stompjs/binary": "sends frames of text, unless web_stomp.ws_frame is binary",
    "extension/websocket/disconnect": "closes the WebSocket before the receipt",
    "@stomp/stompjs/disconnect": "closes the WebSocket before the receipt",
}

_PENSTOCK: Final = {
    "extension/selector/boolean-as-text": "a header true or false becomes a boolean, unless types is string",
    "extension/selector/on-a-queue": "a queue has one selector for all its consumers, since that says what it keeps",
}

EXPLANATIONS: Final[dict[tuple[str, str], str]] = {
    **{(clause, "ActiveMQ"): text for clause, text in _ACTIVEMQ.items()},
    **{(clause, "RabbitMQ"): text for clause, text in _RABBITMQ.items()},
    **{(clause, "Penstock"): text for clause, text in _PENSTOCK.items()},
}
"""By clause, which may be a pattern, and server; an exact clause goes before a pattern."""


def explanation(clause: str, server: str, known: Mapping[tuple[str, str], str] = EXPLANATIONS) -> str:
    """Why a server differs here; empty if nobody has said so.

    >>> explanation("1.2/a/b", "X", {("1.2/a/*", "X"): "all of a", ("1.2/a/b", "X"): "b alone"})
    'b alone'
    """
    if exact := known.get((clause, server)):
        return exact
    return next(
        (text for (pattern, name), text in known.items() if name == server and fnmatchcase(clause, pattern)), ""
    )
