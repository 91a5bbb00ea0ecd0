"""An authority and certificates for tests, made in a moment and valid for an hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from penstock.live.tls import TlsFiles


class Authority:
    """Signs certificates, and writes everything as PEM files into a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder, self._key, self._name = folder, ec.generate_private_key(ec.SECP256R1()), _named(name)
        self.path = folder / f"{name}.pem"
        builder = _builder(self._name, self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.path.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, *, mutual: bool = False, passphrase: bytes = b"") -> TlsFiles:
        """A certificate of that common name (none if it is empty, two for "a+b") for 127.0.0.1, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        addresses = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        signed = _builder(_named(name), self._name, key).add_extension(addresses, critical=False)
        certificate = self._folder / f"{name}.pem"
        certificate.write_bytes(signed.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        protection = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
        key_file = self._folder / f"{name}.key"
        key_file.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
        )
        return TlsFiles(self.path, certificate, key_file, mutual)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each) for each in name.split("+") if each])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
    )
