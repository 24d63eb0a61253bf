"""Client certificates (RFC 8705): read from files, and kept as long as the files stay the same."""

import asyncio
import hashlib
import ssl
from collections.abc import Callable

from cryptography.hazmat.primitives.serialization import load_pem_private_key

from registry.credentials.secret_files import SecretFiles, SecretUnusable
from registry.egress import ClientIdentity
from registry.model import CertifiedCredential

Identify = Callable[[str, str], ClientIdentity]
"""Makes an identity of a certificate's file and its key's; raises OSError or ssl.SSLError."""


class ClientCertificates:
    """The identities of credentials. The same files give the same object, so that connections may be kept."""

    def __init__(self, identify: Identify) -> None:
        self._identify = identify
        self._certificates = SecretFiles(_digest, private=False)
        self._keys = SecretFiles(_digest_of_key)
        self._kept: dict[tuple[str, str], tuple[tuple[bytes, bytes], ClientIdentity]] = {}

    async def of(self, credential: CertifiedCredential) -> ClientIdentity | None:
        """The identity that the credential names; None: it names none. Raises SecretUnusable."""
        certificate, key = credential.client_certificate_file, credential.client_certificate_key_file
        if certificate is None or key is None:
            return None
        digests = (await self._certificates.get(certificate), await self._keys.get(key))
        kept = self._kept.get((certificate, key))
        if kept is not None and kept[0] == digests:
            return kept[1]
        identity = await self._read(certificate, key)
        self._kept[certificate, key] = (digests, identity)
        return identity

    async def _read(self, certificate: str, key: str) -> ClientIdentity:
        try:
            return await asyncio.to_thread(self._identify, certificate, key)
        except ssl.SSLError as error:
            why = "the key is another certificate's" if error.reason == "KEY_VALUES_MISMATCH" else "no PEM"
            raise SecretUnusable(f"{certificate} and {key} are no certificate and its key: {why}") from None
        except OSError as error:
            raise SecretUnusable(f"{certificate} and {key} cannot be read: {error.strerror}") from None


def _digest(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()


def _digest_of_key(pem: bytes) -> bytes:
    try:
        load_pem_private_key(pem, password=None)
    except TypeError:
        raise ValueError("holds an encrypted key; store it without a passphrase") from None
    except Exception:  # noqa: BLE001 - the parsers below raise many kinds, and their messages may quote the key
        raise ValueError("holds no private key in PEM") from None
    return _digest(pem)
