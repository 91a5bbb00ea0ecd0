"""TLS from files."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from live.certificates import Authority
from live.support import run
from penstock.live.errors import TlsError
from penstock.live.tls import TlsFiles, client_context, common_name, server_context


async def names_seen(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[str, str]:
    """The common names that server and client see of each other."""
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(common_name(writer.transport))
        writer.write(await reader.read(1))
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server)
    async with listening:
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname(), ssl=client)
        name = common_name(writer.transport)
        try:
            writer.write(b"x")
            if await reader.read(1) != b"x":
                raise ConnectionResetError("the server ended it")
        finally:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)
    return seen[0], name


def test_the_client_knows_the_server(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = server_context(authority.issue("b1"))
    assert run(names_seen(server, client_context(TlsFiles(authority.path)))) == ("", "b1")


def test_with_mutual_tls_the_server_knows_the_client(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = server_context(authority.issue("b1", mutual=True))
    assert run(names_seen(server, client_context(authority.issue("feed")))) == ("feed", "b1")


def test_a_certificate_for_two_names_is_for_neither(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = server_context(authority.issue("b1", mutual=True))
    assert run(names_seen(server, client_context(authority.issue("feed+desk")))) == ("", "b1")


def test_with_mutual_tls_a_client_without_certificate_is_not_let_in(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = server_context(authority.issue("b1", mutual=True))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        run(names_seen(server, client_context(TlsFiles(authority.path))))


def test_a_server_of_another_authority_is_not_believed(tmp_path: Path) -> None:
    server = server_context(Authority(tmp_path, "other").issue("b1"))
    with pytest.raises(ssl.SSLCertVerificationError):
        run(names_seen(server, client_context(TlsFiles(Authority(tmp_path).path))))


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    good, other = authority.issue("b1"), authority.issue("b2")
    absent, noise = tmp_path / "absent.pem", tmp_path / "noise.pem"
    noise.write_text("noise", encoding="utf-8")
    for files, complaint in [
        (replace(good, certificate=absent), r"certificate .*absent\.pem cannot be read: No such file"),
        (replace(good, key=absent), r"key .*absent\.pem cannot be read: No such file"),
        (replace(good, key=other.key), r"key .*b2\.key does not belong to the certificate .*b1\.pem"),
        (replace(good, certificate=noise), r"noise\.pem .*cannot be used: not a PEM file"),
        (replace(good, key=noise), r"noise\.pem cannot be used: not a PEM file"),
        (replace(good, key=None), "a server needs a certificate and a key"),
        (replace(good, ca=absent, mutual=True), r"authority .*absent\.pem cannot be read: No such file"),
        (replace(good, ca=noise, mutual=True), r"authority .*noise\.pem cannot be used: not a PEM file"),
        (authority.issue("b3", passphrase=b"x"), "protected by a passphrase"),
    ]:
        with pytest.raises(TlsError, match=complaint):
            server_context(files)


def test_a_client_shows_a_whole_certificate_or_none(tmp_path: Path) -> None:
    good = Authority(tmp_path).issue("b1")
    client_context(replace(good, certificate=None, key=None))
    with pytest.raises(TlsError, match="a certificate needs its key"):
        client_context(replace(good, key=None))
    with pytest.raises(TlsError, match="authority"):
        client_context(replace(good, ca=tmp_path / "absent.pem"))
