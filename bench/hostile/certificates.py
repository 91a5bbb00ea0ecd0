"""Makes the certificates for one run: an authority, the brokers, the honest client, and one without a common name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.x509.oid import NameOID

__all__ = ["HONEST", "NAMELESS", "make_certificates"]

NAMELESS: Final = "nameless"
"""The file name of the certificate without a common name."""
HONEST: Final = "honest"
"""The name in the certificate of the honest client."""
_HOURS: Final = 2


def make_certificates(folder: Path, brokers: Sequence[str]) -> None:
    """Write ``ca.pem``, and ``NAME.pem`` with ``NAME.key`` for each party."""
    authority = generate_private_key(SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    own = _builder(issuer, issuer, authority).add_extension(x509.BasicConstraints(ca=True, path_length=None), True)  # noqa: FBT003 - the library's signature
    (folder / "ca.pem").write_bytes(_pem(own.sign(authority, hashes.SHA256())))
    for name in (*brokers, HONEST, NAMELESS):
        key = generate_private_key(SECP256R1())
        kind = NameOID.ORGANIZATION_NAME if name == NAMELESS else NameOID.COMMON_NAME
        subject = x509.Name([x509.NameAttribute(kind, name)])
        address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        signed = _builder(subject, issuer, key).add_extension(address, critical=False)
        (folder / f"{name}.pem").write_bytes(_pem(signed.sign(authority, hashes.SHA256())))
        file = folder / f"{name}.key"
        file.touch(mode=0o600)
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )


def _builder(subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=_HOURS))
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
