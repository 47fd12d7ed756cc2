"""Throw-away certificates for the loopback interface: an authority, and a server that it vouches for."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Certificates:
    """PEM files.

    Attributes:
        authority: the certificate to trust.
        certificate: the server's, for 127.0.0.1.
        key: the server's private key, PKCS 8.
    """

    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def make(cls, folder: Path) -> "Certificates":
        """Make an authority and a server's certificate in a folder."""
        authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        authority, server = _name("authority"), _name("127.0.0.1")
        root = _certificate(authority, authority, authority_key, authority_key)
        leaf = _certificate(server, authority, server_key, authority_key)
        made = cls(folder / "authority.pem", folder / "server.pem", folder / "server.key")
        made.authority.write_bytes(root.public_bytes(serialization.Encoding.PEM))
        made.certificate.write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
        made.key.write_bytes(
            server_key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return made


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, signed_by: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    is_authority = subject == issuer
    draft = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if not is_authority:
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))])
        draft = draft.add_extension(here, critical=False)
    return draft.sign(signed_by, hashes.SHA256())
