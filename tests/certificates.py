"""Certificates that tests make as they need them: an authority, and what it vouches for."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import NamedTuple, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Made(NamedTuple):
    """A certificate with its key."""

    certificate: x509.Certificate
    key: PrivateKey

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def key_pem(self) -> str:
        return self.key_with(serialization.NoEncryption())

    def key_with(self, encryption: serialization.KeySerializationEncryption) -> str:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        ).decode()


def make(
    name: str,
    issuer: Made | None = None,
    *,
    begins: datetime | None = None,
    lasts: timedelta = timedelta(days=36_500),
    is_client: bool = False,
    key: PrivateKey | None = None,
) -> Made:
    """An authority, or what one vouches for: a server at this machine, or a client."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begins = begins or datetime(2020, 1, 1, tzinfo=UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + lasts)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer is not None:
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if is_client else ExtendedKeyUsageOID.SERVER_AUTH
        names = [x509.DNSName(name), x509.IPAddress(ip_address("127.0.0.1"))]
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signed = builder.sign(issuer.key if issuer else key, hashes.SHA256())
    return Made(signed, key)
