"""Certificates and keys that users send, read and checked; no error quotes a key."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from duetime.clock import Millis, from_datetime, to_rfc3339
from duetime.delivery.client_certificate import ClientCertificate
from duetime.errors import InvalidRequest
from duetime.tenancy.credential import Certificate

if TYPE_CHECKING:
    from cryptography import x509

_PEM = "-----BEGIN"
LARGEST_RSA = 4096  # bits: with twice as many, a handshake keeps the event loop for 40 ms


def inspect(chain: str, key: str, authorities: str | None, now: Millis) -> Certificate:
    """Check that a chain, a key and authorities are fit for TLS, and say what the first is."""
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415

    certificate = _certificates(chain, "certificate")[0]
    _check_times(certificate, now)
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    with _refusing("certificate: has a public key of a kind that is not known"):
        certified = certificate.public_key().public_bytes(serialization.Encoding.DER, public)
    with _refusing("private_key: must be a private key in PEM, without a password"):
        loaded = serialization.load_pem_private_key(
            key.encode(), None, unsafe_skip_rsa_key_validation=True
        )
        own = loaded.public_key().public_bytes(serialization.Encoding.DER, public)
    if own != certified:
        raise InvalidRequest("private_key: does not belong to the certificate")
    if isinstance(loaded, rsa.RSAPrivateKey) and loaded.key_size > LARGEST_RSA:
        raise InvalidRequest(f"private_key: an RSA key must have at most {LARGEST_RSA} bits")
    if authorities is not None:
        _certificates(authorities, "authorities")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with _refusing("certificate: cannot be used for TLS with this key"):
        shown = ClientCertificate("", chain=chain, key=key.encode(), authorities=authorities)
        shown.load_into(context)
    with _refusing("authorities: cannot be used for TLS"):
        context.load_verify_locations(cadata=authorities or chain)
    return Certificate(
        subject=certificate.subject.rfc4514_string(),
        issuer=certificate.issuer.rfc4514_string(),
        not_after=from_datetime(certificate.not_valid_after_utc),
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
    )


def _certificates(text: str, field: str) -> "list[x509.Certificate]":
    from cryptography import x509  # noqa: PLC0415

    with _refusing(f"{field}: must be one certificate or more in PEM"):
        found = x509.load_pem_x509_certificates(text.encode())
    if text.count(_PEM) != len(found):  # a key that was sent with it would be kept in the open
        raise InvalidRequest(f"{field}: must be certificates only")
    return found


def _check_times(certificate: "x509.Certificate", now: Millis) -> None:
    begins = from_datetime(certificate.not_valid_before_utc)
    ends = from_datetime(certificate.not_valid_after_utc)
    if ends <= now:
        raise InvalidRequest(f"certificate: expired at {to_rfc3339(ends)}")
    if begins > now:
        raise InvalidRequest(f"certificate: is not valid before {to_rfc3339(begins)}")


@contextmanager
def _refusing(problem: str) -> Iterator[None]:
    """Say this of whatever the library finds: its own words may quote what it read."""
    try:
        yield
    except InvalidRequest:
        raise
    except Exception:  # noqa: BLE001 - it has many kinds of errors, and no common one
        raise InvalidRequest(problem) from None
