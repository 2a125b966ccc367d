"""Trust: which authorities may vouch for a receiver, as the machine is set up.

OpenSSL's own places count, and with them its variables SSL_CERT_FILE and SSL_CERT_DIR. A Python
that was built elsewhere may look where this machine has nothing; then the usual places are tried.
"""

import ssl
from pathlib import Path

_USUAL = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def trusting() -> ssl.SSLContext:
    """What TLS connections are made with: the receiver's name and certificate are checked."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    places = ssl.get_default_verify_paths()
    if places.cafile is None and places.capath is None:
        for bundle in _USUAL:
            if Path(bundle).is_file():
                context.load_verify_locations(bundle)
                break
    return context
