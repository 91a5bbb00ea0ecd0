"""Connects commands to a broker: the options they share, and the client made from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from penstock.model.errors import MisuseError

if TYPE_CHECKING:
    from penstock.client.client import Client

__all__ = ["Authority", "Certificate", "ClientName", "Key", "Party", "Token", "Url"]

Url: TypeAlias = Annotated[
    str, typer.Argument(metavar="URL", help="The broker: `penstock://host:port`, with TLS `penstocks://host:port`.")
]
Token: TypeAlias = Annotated[
    str, typer.Option(metavar="TEXT", envvar="PENSTOCK_TOKEN", help="The token by which the broker knows this client.")
]
ClientName: TypeAlias = Annotated[
    str, typer.Option("--name", metavar="TEXT", help="The name of this client; made up if not given.")
]
Authority: TypeAlias = Annotated[
    Path | None, typer.Option("--ca", metavar="FILE", help="The authority that signed the broker's certificate.")
]
Certificate: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The certificate that this client shows.")
]
Key: TypeAlias = Annotated[Path | None, typer.Option(metavar="FILE", help="The key of that certificate.")]


@dataclass(slots=True, frozen=True)
class Party:
    """The identity a command presents to a broker."""

    token: str = ""
    name: str = ""
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def client(self, url: str, *, connect_ms: int = 5_000) -> Client:
        """A client, not connected yet, that gives up soon: somebody is waiting at the shell."""
        # Imported late: a command that only shows its help needs no client.
        from penstock.client.client import connect
        from penstock.session.settings import ClientSettings

        settings = ClientSettings(connect_ms=connect_ms, connect_timeout_ms=0, give_up_ms=10 * connect_ms)
        return connect(url, token=self.token, name=self.name, tls=self._context(), settings=settings)

    def _context(self) -> Any:
        if self.ca is not None:
            from penstock.live.tls import TlsFiles, client_context

            return client_context(TlsFiles(self.ca, self.certificate, self.key))
        if self.certificate is not None or self.key is not None:
            raise MisuseError("--certificate and --key need --ca, the authority by which the broker is checked")
        return None
