"""What a client gets of what it asks for: narrowed by its rule, and without the system's own publications.

Those name clients and groups of others, as the status does. So they are for the same clients: those whose rule says
``status``, or everybody where nobody has to prove a name.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.host.subscribers import is_reserved
from penstock.broker.peers import Guest
from penstock.broker.settings import BrokerSettings
from penstock.model.bounded_cache import BoundedCache
from penstock.model.values import RESERVED_PREFIX
from penstock.selectors.errors import SelectorError
from penstock.selectors.selector import EVERYTHING, Selector

__all__ = ["Selecting"]

_NARROWED_CHARS_MAX: Final = 1024 * 1024
"""Characters of the selectors that are remembered as narrowed by a rule."""


class Selecting:
    """Narrows what the clients of one broker ask for."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._narrowed: BoundedCache[tuple[str, Selector], Selector] = BoundedCache(_NARROWED_CHARS_MAX)

    def select(self, guest: Guest, text: str) -> tuple[str, Selector | None]:
        """Why a client may not select that, or nothing and what it may see of it."""
        allowed = guest.rule.subscribe
        assert allowed is not None, "a client that may not subscribe is not asked for what"
        try:
            selector = Selector.parse(text)
            if RESERVED_PREFIX in text and not self._may_see_system(guest) and _selects_system(selector):
                return f"client {guest.client} may not select what belongs to the system ({RESERVED_PREFIX})", None
            return "", selector if allowed == EVERYTHING else self._within(text, selector, allowed)
        except SelectorError as error:
            return str(error), None

    def _may_see_system(self, guest: Guest) -> bool:
        return self._settings.access.is_open or guest.rule.status

    def _within(self, text: str, selector: Selector, allowed: Selector) -> Selector:
        # Clients ask for the same things again and again, above all after a reconnect.
        narrowed = self._narrowed.get((text, allowed))
        if narrowed is None:
            narrowed = selector & allowed
            self._narrowed.put((text, allowed), narrowed, len(text) + len(str(narrowed)))
        return narrowed


def _selects_system(selector: Selector) -> bool:
    return any(map(is_reserved, selector.conjunctions))
