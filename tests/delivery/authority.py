"""An authority that makes certificates as a test needs them: good ones, and all the wrong kinds."""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_DAY = timedelta(days=1)


class Authority:
    """Its own certificate is in ``path``; those that it makes lie beside it."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.path = folder / f"{name}.pem"
        made = _builder(self._name, self._name, self._key, (-1, 1)).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        certificate = made.sign(self._key, hashes.SHA256())
        self.path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def server(
        self,
        *hosts: str,
        days: tuple[int, int] = (-1, 1),
        is_self_signed: bool = False,
    ) -> ssl.SSLContext:
        """What a server needs for TLS as these hosts, valid from one day to another, from today."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, hosts[0])])
        issuer, signer = (subject, key) if is_self_signed else (self._name, self._key)
        made = _builder(subject, issuer, key, days).add_extension(
            x509.SubjectAlternativeName(_names(hosts)), critical=False
        )
        path = self._folder / "server.pem"
        path.write_bytes(
            made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        path.unlink()
        return context


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: tuple[int, int]
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + days[0] * _DAY)
        .not_valid_after(now + days[1] * _DAY)
    )


def _names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    return [
        x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
        for host in hosts
    ]
