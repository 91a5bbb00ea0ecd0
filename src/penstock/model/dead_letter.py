"""What a dead letter is: a message that was given up, kept whole, with attributes that say what has happened to it.

Usually it has the attributes of its message beside its own, so that it can be selected by either. Reserved attributes
are renamed: a dead letter is no request. If there is no room for both, or names clash, the whole message becomes the
payload.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.model.body import MalformedBodyError, decode_message, encode_body, encode_message
from penstock.model.errors import LimitError, MisuseError
from penstock.model.message import Message
from penstock.model.message_id import MESSAGE_ID_BYTES, MessageId
from penstock.model.values import RESERVED_PREFIX, Attributes, AttributeValue

__all__ = ["WHOLE", "Original", "encode_dead_letter", "original_of"]

WHOLE: Final = "application/vnd.penstock.message"
"""The content type of a payload that is a whole message."""
_HISTORY_CHARS_MAX: Final = 1_000
_WHOLE: Final = "dead_whole"
"""Says that the payload is the whole message."""
_CUT: Final = "dead_cut"
"""Says that there was no room for the attributes of the message."""
_OWN: Final = frozenset(
    {
        "dead_group",
        "dead_pubend",
        "dead_tick",
        "dead_attempts",
        "dead_reason",
        "dead_history",
        _WHOLE,
        _CUT,
    }
)
_RESERVED: Final = f"dead_{RESERVED_PREFIX}"
"""How the names of attributes begin that are reserved in the message."""


@dataclass(slots=True, frozen=True)
class Original:
    """The message that a dead letter was made of."""

    pubend: str
    """Where it was published."""
    attributes: dict[str, AttributeValue]
    """What its publisher gave it."""
    payload: bytes
    content_type: str
    reserved: tuple[str, ...] = ()
    """Names of the reserved attributes that it had: no application may publish those."""
    is_cut: bool = False
    """Whether its attributes are missing, since there was no room for them."""


def encode_dead_letter(message_id: MessageId, message: Message, why: Attributes, history: str) -> bytes:
    """The dead letter of a message, under the same identifier and without its lifetime."""
    long = {**why, "dead_history": history[:_HISTORY_CHARS_MAX]}
    renamed = {_renamed(name): value for name, value in message.attributes.items()}
    is_clear = not any(name in _OWN or name.startswith(_RESERVED) for name in message.attributes)
    if is_clear:
        for mine in (long, why):
            letter = _encoded(message_id, {**renamed, **mine}, message.payload, message.content_type)
            if letter is not None:
                return letter
    whole = encode_message(Message.system(message.attributes, message.payload, message.content_type))
    letter = _encoded(message_id, {**long, _WHOLE: True}, whole, WHOLE)
    # Only a payload of almost the greatest size leaves no room for that.
    letter = letter or _encoded(message_id, {**long, _CUT: True}, message.payload, message.content_type)
    assert letter is not None, "a message can always have these attributes"
    return letter


def original_of(attributes: Attributes, payload: bytes, content_type: str) -> Original | None:
    """What a dead letter was made of; None if the message is no dead letter."""
    pubend = attributes.get("dead_pubend")
    if not isinstance(pubend, str) or not pubend:
        return None
    if attributes.get(_CUT) is True:
        return Original(pubend, {}, payload, content_type, is_cut=True)
    if attributes.get(_WHOLE) is not True:
        plain = {name: value for name, value in attributes.items() if name not in _OWN}
        reserved = [name for name in plain if name.startswith(_RESERVED)]
        return _original(pubend, plain, reserved, payload, content_type)
    try:
        _, message = decode_message(bytes(MESSAGE_ID_BYTES) + payload)
    except MalformedBodyError:
        return None
    reserved = [name for name in message.attributes if name.startswith(RESERVED_PREFIX)]
    return _original(pubend, message.attributes, reserved, message.payload, message.content_type)


def _original(pubend: str, attributes: Attributes, reserved: list[str], payload: bytes, content_type: str) -> Original:
    kept = {name: value for name, value in attributes.items() if name not in reserved}
    return Original(pubend, kept, payload, content_type, tuple(name.removeprefix("dead_") for name in reserved))


def _renamed(name: str) -> str:
    return f"dead_{name}" if name.startswith(RESERVED_PREFIX) else name


def _encoded(message_id: MessageId, attributes: Attributes, payload: bytes, content_type: str) -> bytes | None:
    try:
        return encode_body(message_id, Message(attributes, payload, content_type))
    except (LimitError, MisuseError):
        return None
