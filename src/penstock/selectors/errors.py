"""The errors of selectors.

MisuseError
└── SelectorError            the text is not a selector; knows the character and what was expected there
    └── SelectorTooLargeError   it would cost a broker too much
"""

from __future__ import annotations

from penstock.model.errors import MisuseError

__all__ = ["SelectorError", "SelectorTooLargeError"]

_EXCERPT_CHARS = 60


class SelectorError(MisuseError):
    """The text is not a selector: at ``position`` something else was expected."""

    def __init__(self, problem: str, text: str, position: int) -> None:
        self.problem, self.text, self.position = problem, text, position
        super().__init__(f"{problem} at character {position + 1}\n{_pointer(text, position)}")


class SelectorTooLargeError(SelectorError):
    """The selector is larger than the limits allow."""


def _pointer(text: str, position: int) -> str:
    """The text around the position on one line, and a caret below it."""
    start = max(0, position - _EXCERPT_CHARS // 2)
    excerpt = text[start : start + _EXCERPT_CHARS]
    visible = "".join(char if char.isprintable() else " " for char in excerpt)
    return f"  {visible}\n  {' ' * (position - start)}^"
