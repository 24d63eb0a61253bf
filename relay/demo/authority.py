"""The demonstration's certificate authority: made once, kept in two files, trusted by nobody but its users."""

import ssl
from pathlib import Path
from typing import Self

import trustme

from relay.demo.files import locked, write_file


class Authority:
    """A local CA. ``ca_file`` is what a client is told to trust; the key beside it never leaves its directory."""

    def __init__(self, ca_file: Path, ca: trustme.CA) -> None:
        self.ca_file = ca_file
        self._ca = ca

    @classmethod
    def open(cls, directory: Path) -> Self:
        """The authority kept in ``directory``, made when there is none; several processes may do so at once."""
        certificate, key = directory / "ca.pem", directory / "ca-key.pem"
        with locked(directory):
            if not certificate.exists():
                made = trustme.CA(organization_name="Feedback relay demonstration")
                write_file(key, made.private_key_pem.bytes(), mode=0o600)
                write_file(certificate, made.cert_pem.bytes(), mode=0o644)
            return cls(certificate, trustme.CA.from_pem(certificate.read_bytes(), key.read_bytes()))

    def server_context(self, name: str = "localhost") -> ssl.SSLContext:
        """TLS for a server of this name, with a certificate made now."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._ca.issue_cert(name).configure_cert(context)
        return context
