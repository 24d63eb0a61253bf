"""Why an exchange brought no answer.

    EgressFailure
      url_refused, request_refused    what was asked for cannot be sent by anyone
      dns_failed, address_refused     no address, or one that must not be dialled
      connect_failed, tls_failed      no connection, or not to the server that its name says
      connection_reset                the connection ended before the answer began
      malformed_answer                what came is not HTTP
      headers_too_large               the answer's headers exceed the limits
      answer_cut_off                  the connection ended inside the answer
      deadline_exceeded               the time was up, in whatever phase
      unexpected                      an error that this module does not know: a fault of ours or of aiohttp

All of them may be retried. None of the messages holds a part of the request or of the answer.
"""

import ssl
from collections.abc import Iterator
from typing import Literal, TypeAlias

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from registry.dialling import AddressRefused, LookupFailed, Phase, Progress

Kind: TypeAlias = Literal[
    "url_refused",
    "request_refused",
    "dns_failed",
    "address_refused",
    "connect_failed",
    "tls_failed",
    "connection_reset",
    "malformed_answer",
    "headers_too_large",
    "answer_cut_off",
    "deadline_exceeded",
    "unexpected",
]

KINDS: tuple[tuple[type[BaseException], Kind], ...] = (
    (AddressRefused, "address_refused"),
    (LookupFailed, "dns_failed"),
    (aiohttp.ClientConnectorDNSError, "dns_failed"),
    (aiohttp.ClientSSLError, "tls_failed"),
    (aiohttp.ServerFingerprintMismatch, "tls_failed"),
    (aiohttp.ClientConnectorError, "connect_failed"),
    (aiohttp.ServerTimeoutError, "deadline_exceeded"),
    (aiohttp.ClientConnectionError, "connection_reset"),
    (aiohttp.UploadAbortedError, "connection_reset"),
    (aiohttp.ClientResponseError, "malformed_answer"),
    (aiohttp.ClientPayloadError, "answer_cut_off"),
    (aiohttp.InvalidURL, "url_refused"),
    (aiohttp.NonHttpUrlClientError, "url_refused"),
    (aiohttp.RedirectClientError, "url_refused"),
    (HttpProcessingError, "malformed_answer"),
    (ssl.SSLError, "tls_failed"),
    (TimeoutError, "deadline_exceeded"),
    (OSError, "connection_reset"),
)
"""The first match counts. aiohttp's root, ClientError, stands in no row, so that a class it adds is noticed."""


class EgressFailure(Exception):  # noqa: N818 - reads as what it is
    """No answer. ``kind`` is a code of this module, ``phase`` how far the exchange had come.

    ``ambiguous`` says that the request may have been received: sending had begun. ``status`` is the answer's, where
    only its body failed. ``detail`` is for operators.
    """

    def __init__(
        self, kind: Kind, phase: Phase, *, ambiguous: bool = False, detail: str = "", status: int | None = None
    ) -> None:
        super().__init__(f"{kind} in phase {phase}" + (f": {detail}" if detail else ""))
        self.kind: Kind = kind
        self.phase: Phase = phase
        self.ambiguous = ambiguous
        self.detail = detail
        self.status = status


def failure_of(error: Exception, progress: Progress) -> EgressFailure:
    """What an exception of aiohttp, the system or TLS means for the exchange that it ended."""
    if progress.refused is not None and not progress.began_to_send:
        return EgressFailure("address_refused", progress.phase, detail=progress.refused)
    kind = kind_of(error)
    if kind == "connect_failed" and progress.phase == "tls":
        kind = "tls_failed"
    return EgressFailure(
        kind, progress.phase, ambiguous=progress.began_to_send, detail=_detail(error), status=progress.status
    )


def kind_of(error: BaseException) -> Kind:
    if any(_exceeds_limits(cause) for cause in _causes(error)):
        return "headers_too_large"
    return next((kind for class_, kind in KINDS if isinstance(error, class_)), "unexpected")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _exceeds_limits(error: BaseException) -> bool:
    # aiohttp has no class of its own for the number of headers.
    too_many = isinstance(error, HttpProcessingError) and error.message.startswith("Too many headers")
    return too_many or isinstance(error, LineTooLong)


def _detail(error: Exception) -> str:
    """The system's or the TLS library's own words; other exceptions may quote what the peer sent."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return str(getattr(error.certificate_error, "verify_message", ""))
        case aiohttp.ClientConnectorError():
            return str(
                getattr(error.os_error, "reason", None) or error.os_error.strerror or type(error.os_error).__name__
            )
        case LookupFailed():
            return str(error)
        case _:
            return ""
