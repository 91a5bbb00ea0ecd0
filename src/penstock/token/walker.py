"""One component's part in the walk of a token: operate, skip, discard, make a new one ([Token] section 4, figure 1).

As we read it (decision record 12), the Δper of figure 1 is Δmin, compared with the time since this component's last
operation; a skip changes neither that time nor the remembered token. Read literally, the figure leaves the resource
idle most of the time. Variant ``swift`` (ours) discards a token only on evidence newer than the token, and makes fresh
tokens skip for a while: the memory of a lost token then cannot kill its successor, and rivals sort themselves out
before any of them operates.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final

from penstock.token.settings import SWIFT, Constants
from penstock.token.tokens import Generation, Token

__all__ = ["Visit", "Walker"]

_SEEN_MAX: Final = 8
"""Tokens whose last visit variant ``swift`` remembers; there are rarely more than two."""


class Visit(Enum):
    """What a component does with a token that visits it."""

    EXECUTE = "execute"
    SKIP = "skip"
    DISCARD = "discard"


class Walker:
    """The rules at one component: what to do with tokens, and when to make one.

    It holds at most one token at a time; others wait. Its caller passes on the token that ``release`` returns, and then
    calls ``next_waiting``.
    """

    __slots__ = (
        "_constants",
        "_is_swift",
        "_seen",
        "_serial",
        "_waiting",
        "due_ms",
        "executed_ms",
        "gen_ms",
        "generated",
        "held",
        "name",
        "owner",
        "until_ms",
    )

    def __init__(self, name: str, constants: Constants, *, now_ms: int) -> None:
        self.name = name
        """Unique across lives of components: the ids of tokens made here begin with it."""
        self._constants = constants
        self._is_swift = constants.variant == SWIFT
        self.gen_ms = float(constants.max_ms)
        """The timeout after which a new token is made (Δgen)."""
        self.due_ms = now_ms + constants.max_ms
        """When a new token is made, unless one comes or is held."""
        self.executed_ms: int | None = None
        """When the last operation began."""
        self.owner: Token | None = None
        """The token that enabled the last operation."""
        self.held: Token | None = None
        """The token that is here."""
        self.until_ms = 0
        """When the token here may leave."""
        self.generated = 0
        """Tokens made here."""
        self._waiting: deque[Token] = deque()
        self._seen: dict[Generation, int] = {}
        self._serial = 0

    @property
    def constants(self) -> Constants:
        """The time constants in force."""
        return self._constants

    def adapt(self, constants: Constants, *, now_ms: int) -> None:
        """Applies other constants, as the group has grown or shrunk."""
        grown = constants.max_ms / self._constants.max_ms
        self._constants, self._is_swift = constants, constants.variant == SWIFT
        # The ratio of Δgen to Δmax was learnt here, and stays.
        self.gen_ms = max(self.gen_ms * grown, float(constants.max_ms))
        if self.held is None:
            self.due_ms = now_ms + int(max(self.due_ms - now_ms, 0) * grown)

    def arrive(self, token: Token, *, now_ms: int) -> Visit | None:
        """Handles a token that has come; returns None if it has to wait until the one held is released."""
        if self.held is not None:
            self._waiting.append(token)
            return None
        return self._visit(token, now_ms)

    def release(self, *, now_ms: int) -> Token:
        """Releases the token that was held, and restarts the timer."""
        token = self.held
        assert token is not None, f"{self.name} holds no token to release"
        self.held = None
        self._restart(now_ms)
        return token

    def next_waiting(self, *, now_ms: int) -> Visit | None:
        """Handles the token that has waited longest; None if none waits."""
        if self.held is not None or not self._waiting:
            return None
        return self._visit(self._waiting.popleft(), now_ms)

    def generate(self, *, now_ms: int) -> Visit:
        """Makes a token, as none came for Δgen, and starts with it."""
        assert self.held is None, f"{self.name} makes a token while it holds one"
        self.gen_ms *= self._constants.growth
        self._serial += 1
        self.generated += 1
        token = Token(now_ms, f"{self.name}:{self._serial}")
        if self._is_swift and self._constants.probation_ms:
            self._see(token, now_ms)
            return self._skip(token, now_ms)
        return self._execute(token, now_ms)

    def lose(self, *, now_ms: int) -> int:
        """Drops all tokens here, and what was learnt of losses; returns how many tokens there were."""
        lost = len(self._waiting) + (self.held is not None)
        if self.held is not None:
            self.held = None
            self._restart(now_ms)
        self._waiting.clear()
        self.due_ms -= int(self.gen_ms) - self._constants.max_ms
        self.gen_ms = float(self._constants.max_ms)
        return lost

    @property
    def waiting(self) -> int:
        """Number of tokens that wait behind the one held."""
        return len(self._waiting)

    def check_invariants(self) -> None:
        """Fails if the state is not sound."""
        assert self.gen_ms >= self._constants.max_ms
        assert not self._waiting or self.held is not None
        assert len(self._seen) <= _SEEN_MAX
        assert (self.owner is None) == (self.executed_ms is None)

    # --- internals

    def _visit(self, token: Token, now_ms: int) -> Visit:
        constants = self._constants
        self.gen_ms -= constants.decay * (self.gen_ms - constants.max_ms)
        if self._is_swift:
            return self._visit_swiftly(token, now_ms)
        if self.executed_ms is None or now_ms - self.executed_ms >= constants.min_ms:
            return self._execute(token, now_ms)
        owner = self.owner
        assert owner is not None
        if owner.precedes(token):
            self._restart(now_ms)
            return Visit.DISCARD
        return self._skip(token, now_ms)

    def _visit_swiftly(self, token: Token, now_ms: int) -> Visit:
        if len(self._seen) > (token.generation in self._seen) and self._is_outlived(token):
            self._restart(now_ms)
            return Visit.DISCARD
        self._see(token, now_ms)
        constants = self._constants
        is_due = self.executed_ms is None or now_ms - self.executed_ms >= constants.min_ms
        if is_due and now_ms - token.timestamp_ms >= constants.probation_ms:
            return self._execute(token, now_ms)
        return self._skip(token, now_ms)

    def _is_outlived(self, token: Token) -> bool:
        """Whether an older token was seen here after this one was made."""
        born_ms, generation = token.timestamp_ms, token.generation
        return any(seen_ms > born_ms and other < generation for other, seen_ms in self._seen.items())

    def _see(self, token: Token, now_ms: int) -> None:
        generation = token.generation
        if generation not in self._seen and len(self._seen) >= _SEEN_MAX:
            del self._seen[min(self._seen, key=self._seen.__getitem__)]
        self._seen[generation] = now_ms

    def _execute(self, token: Token, now_ms: int) -> Visit:
        token = token.enabling()
        self.owner, self.executed_ms = token, now_ms
        self.held, self.until_ms = token, now_ms + self._constants.op_ms
        return Visit.EXECUTE

    def _skip(self, token: Token, now_ms: int) -> Visit:
        self.held, self.until_ms = token, now_ms + self._constants.skip_ms
        return Visit.SKIP

    def _restart(self, now_ms: int) -> None:
        self.due_ms = now_ms + int(self.gen_ms)
