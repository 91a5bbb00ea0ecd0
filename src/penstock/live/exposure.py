"""What a broker warns of when it starts: secrets that others can read, on the wire or on the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from stat import S_IROTH

from penstock.live.overlay import BrokerPlace, Overlay, is_loopback

__all__ = ["exposed_secrets"]


def exposed_secrets(overlay: Overlay, place: BrokerPlace) -> Iterator[tuple[str, dict[str, str]]]:
    """Events with their fields, each of which says what to do."""
    if place.tls is None and not is_loopback(place.listens_at):
        advice = "tokens of clients can be read on the way; use TLS"
        yield "unencrypted", {"address": place.listens_at, "advice": advice}
    security = overlay.security
    if overlay.source is not None and (security.link_token or security.admin_token or overlay.access.tokens):
        yield from _readable(overlay.source, "tokens")
    if place.tls is not None and place.tls.key is not None:
        yield from _readable(place.tls.key, "the key")


def _readable(path: Path, what: str) -> Iterator[tuple[str, dict[str, str]]]:
    try:
        mode = path.stat().st_mode
    except OSError:
        # Whoever needs it complains; it may have been read and put away since.
        return
    if mode & S_IROTH:
        advice = f"every user of this machine can read {what}; chmod o-rwx"
        yield "secret-readable", {"file": str(path), "advice": advice}
