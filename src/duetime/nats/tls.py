"""TLS to NATS servers: whom to believe, and what to show of oneself."""

import ssl

from duetime.errors import ConfigurationError


def context(authority: str = "", certificate: str = "", key: str = "") -> ssl.SSLContext:
    """One that believes this file of authorities, or the system's, and shows this certificate."""
    try:
        made = ssl.create_default_context(cafile=authority or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"NATS_TLS_CA: {authority} cannot be used: {error}") from None
    if certificate:
        try:
            made.load_cert_chain(certificate, key or None)
        except (OSError, ssl.SSLError) as error:
            if not key and isinstance(error, ssl.SSLError):
                raise ConfigurationError(
                    f"NATS_TLS_CERT: {certificate} has no certificate with its key; if that is in "
                    "a file of its own, name it in NATS_TLS_KEY"
                ) from None
            raise ConfigurationError(
                f"NATS_TLS_CERT and NATS_TLS_KEY cannot be used: {error}"
            ) from None
    elif key:
        raise ConfigurationError("NATS_TLS_CERT: is not set, but NATS_TLS_KEY is")
    return made
