"""Makes contexts for TLS and mutual TLS from files; errors say which file cannot be used, and why.

Between brokers the common name of a certificate is the name of the broker, and is what the dialling side checks: hosts
move, names do not. Clients check the host they dialled, as browsers do.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path

from penstock.live.errors import TlsError

__all__ = ["TlsFiles", "client_context", "common_name", "reload_files", "server_context"]


@dataclass(slots=True, frozen=True)
class TlsFiles:
    """The files with which one party authenticates itself and checks others."""

    ca: Path
    """Certificates of the trusted authorities."""
    certificate: Path | None = None
    """This party's certificate, with the chain to the authority; its common name is the party's name."""
    key: Path | None = None
    """The private key of the certificate."""
    mutual: bool = False
    """Whether the other side must show a certificate, too."""


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """A context for the side that listens; with ``mutual``, only peers with a certificate of the authority get in."""
    if files.certificate is None or files.key is None:
        raise TlsError("a server needs a certificate and a key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_own(context, files.certificate, files.key)
    if files.mutual:
        _load_authorities(context, files.ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(files: TlsFiles, *, checks_host: bool = True) -> ssl.SSLContext:
    """A context for the side that dials; it presents its own certificate if it has one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = checks_host
    _load_authorities(context, files.ca)
    if files.certificate is not None and files.key is not None:
        _load_own(context, files.certificate, files.key)
    elif files.certificate is not None or files.key is not None:
        raise TlsError("a certificate needs its key, and a key its certificate")
    return context


def reload_files(context: ssl.SSLContext, files: TlsFiles) -> None:
    """Reload the files into a context that is in use; authorities are added to those it trusts."""
    if files.certificate is not None and files.key is not None:
        _load_own(context, files.certificate, files.key)
    if context.verify_mode is not ssl.CERT_NONE:
        _load_authorities(context, files.ca)


def common_name(transport: asyncio.BaseTransport) -> str:
    """The common name in the peer's verified certificate; empty if there is none, or more than one."""
    certificate = transport.get_extra_info("peercert") or {}
    pairs = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [str(value) for key, value in pairs if key == "commonName"]
    return names[0] if len(names) == 1 else ""


def _load_own(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    for what, path in (("certificate", certificate), ("key", key)):
        _check_readable(what, path)
    try:
        # Refuse a key with a passphrase, instead of prompting for it on the terminal of a daemon.
        context.load_cert_chain(certificate, key, password=_no_passphrase)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsError(f"the key {key} does not belong to the certificate {certificate}") from None
        raise TlsError(f"the certificate {certificate} with the key {key} cannot be used: {_why(error)}") from None


def _load_authorities(context: ssl.SSLContext, path: Path) -> None:
    _check_readable("authority", path)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise TlsError(f"the authority {path} cannot be used: {_why(error)}") from None


def _check_readable(what: str, path: Path) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise TlsError(f"the {what} {path} cannot be read: {error.strerror or error}") from None


def _no_passphrase() -> str:
    raise TlsError("the key is protected by a passphrase; give the broker one without")


def _why(error: ssl.SSLError) -> str:
    if error.reason in (None, "NO_START_LINE", "NO_CERTIFICATE_OR_CRL_FOUND"):
        return "not a PEM file of that kind"
    return str(error.reason).lower().replace("_", " ")
