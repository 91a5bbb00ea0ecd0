"""What the destinations of STOMP frames stand for: selectors, groups and pubends.

A message that is sent to ``/topic/NAME`` or ``/queue/NAME`` has that text as its attribute ``destination``, by which
everybody can select it. A subscription to a topic selects it. A queue is a group of that name, whose members share what
is sent there. ``/pubend/NAME`` is all that a pubend has, whoever published it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from penstock.model.names import is_durable_name, is_plain_name
from penstock.protocol.stomp import StompError
from penstock.selectors import Selector, SelectorError

__all__ = ["DESTINATION", "Destination", "Kind"]

DESTINATION: Final = "destination"
"""The attribute that has where a message was sent, and the header."""
Kind: TypeAlias = Literal["topic", "queue", "pubend"]
_CHARS_MAX: Final = 255
_ESCAPE: Final = "!"
_ANY: Final = "*"
_REST: Final = ">"


@dataclass(slots=True, frozen=True)
class Destination:
    """A destination, as a client wrote it."""

    text: str
    kind: Kind
    name: str

    @classmethod
    def parse(cls, text: str) -> Destination:
        """Raises ``StompError`` if it is none."""
        kind, _, name = text.removeprefix("/").partition("/")
        if not text.startswith("/") or kind not in ("topic", "queue", "pubend"):
            raise StompError(
                f"destination {text[:100]!r} is neither /topic/NAME, nor /queue/NAME, nor /pubend/NAME", DESTINATION
            )
        if not name or len(text) > _CHARS_MAX or not name.isprintable():
            raise StompError(
                f"destination {text[:100]!r} must have a name of printable characters, {_CHARS_MAX} in all", DESTINATION
            )
        if kind == "queue" and not is_durable_name(name):
            raise StompError(f"queue {name[:100]!r} may have letters, digits and any of _ . : / -", DESTINATION)
        if kind == "pubend" and not is_plain_name(name):
            raise StompError(f"pubend {name[:100]!r} may have letters, digits and any of _ . -", DESTINATION)
        return cls(text, kind, name)  # type: ignore[arg-type]

    @property
    def is_pattern(self) -> bool:
        """Whether it stands for many topics."""
        return self.kind == "topic" and any(each in (_ANY, _REST) for each in self.name.split("."))

    def selector(self, condition: str) -> str:
        """What a subscription to it selects, beside a condition of its own that may be empty.

        Raises ``StompError`` if the condition is no selector.
        """
        condition = _checked(condition) if condition.strip() else ""
        if self.kind == "pubend":
            return condition
        own = self._pattern() if self.is_pattern else f"{DESTINATION} = {_quoted(self.text)}"
        return f"{own} AND ({condition})" if condition else own

    def _pattern(self) -> str:
        parts = self.name.split(".")
        if _REST in parts[:-1] or (parts[-1] == _REST and _ANY in parts):
            raise StompError(
                f"destination {self.text!r} may have {_REST} at its end only, and then no {_ANY}", DESTINATION
            )
        if parts[-1] == _REST:
            return _like("/topic/" + ".".join(parts[:-1]) + ("." if parts[:-1] else ""), "%")
        like = ".".join("%" if part == _ANY else _literal(part) for part in parts)
        more = "%" + ".%" * len(parts)
        # As many dots as the pattern has, and no more: so no part of it stands for several.
        return (
            f"{DESTINATION} LIKE {_quoted('/topic/' + like)} ESCAPE '{_ESCAPE}' "
            f"AND {DESTINATION} NOT LIKE {_quoted('/topic/' + more)} ESCAPE '{_ESCAPE}'"
        )


def _checked(condition: str) -> str:
    """The condition in SQL, by itself: so an error shows its place in what the client wrote, and it opens and closes
    all of its parentheses."""
    try:
        selector = Selector.parse(condition)
    except SelectorError as error:
        raise StompError(str(error), "selector") from None
    is_sql = not condition.lstrip().startswith("[")
    return condition if is_sql else str(selector)


def _like(start: str, rest: str) -> str:
    return f"{DESTINATION} LIKE {_quoted(_literal(start) + rest)} ESCAPE '{_ESCAPE}'"


def _literal(text: str) -> str:
    for special in (_ESCAPE, "%", "_"):
        text = text.replace(special, _ESCAPE + special)
    return text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
