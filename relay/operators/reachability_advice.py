"""What operators are told about something that cannot be reached: what is wrong, and what to change. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Advice:
    """``code`` is the problem's, for programs."""

    code: str
    told: str
    advice: str


_CHECK_SERVER: Final = "check what listens at that address"
_CHECK_KEYS: Final = "check the issuer, or set jwks_uri to where it keeps its keys"

_KNOWN: Final[Mapping[str, tuple[str, str]]] = {
    # Of the egress.
    "dns_failed": ("the name has no address, seen from here", "check the name, and this machine's resolver"),
    "address_refused": (
        "its address must not be dialled",
        "if that network is meant, add it to [egress] allow_networks, and see that no deny_networks covers it",
    ),
    "connect_failed": ("no connection", "check the port, the server, and the firewalls between"),
    "tls_failed": (
        "no trusted TLS connection",
        "check the server's certificate; if a private authority issued it, name that authority in [egress] ca_file",
    ),
    "deadline_exceeded": ("no answer in time", "check the server, and the firewalls between"),
    "connection_reset": ("the connection ended before an answer", _CHECK_SERVER),
    "answer_cut_off": ("the connection ended inside the answer", _CHECK_SERVER),
    "malformed_answer": ("what answers is not HTTP", _CHECK_SERVER),
    "headers_too_large": ("the answer's headers are too large", _CHECK_SERVER),
    "client_certificate_unusable": ("the client certificate cannot be used", "mend the files that it names"),
    # Of an issuer's metadata and keys.
    "answer_too_long": ("its answer is too long to be metadata or keys", _CHECK_KEYS),
    "metadata_not_json": ("its metadata is not JSON", _CHECK_KEYS),
    "metadata_of_another_issuer": (
        "its metadata is another issuer's",
        "write issuer exactly as the metadata does, to the last slash",
    ),
    "metadata_without_jwks_uri": ("its metadata does not say where its keys are", "set jwks_uri"),
    "jwks_uri_malformed": ("its metadata names no proper address for its keys", "set jwks_uri"),
    "jwks_uri_at_another_origin": (
        "its metadata says that its keys are at another origin",
        "if that is right, set jwks_uri to that address",
    ),
    "key_set_not_json": ("its keys are not JSON", _CHECK_KEYS),
    "key_set_no_keys_array": ("where its keys should be is no key set", _CHECK_KEYS),
    "key_set_no_usable_key": ("none of its keys can be used", "have the issuer publish signing keys with a kid"),
    "no_key_for_algorithms": ("none of its keys fits the algorithms", "set algorithms to those that it signs with"),
    # Of the console's issuer.
    "no_pkce_with_s256": ("it does not take PKCE with S256", "have operators sign in at an issuer that does"),
    **{
        f"metadata_without_{name}": (f"its metadata names no {name}", f"set {name} in [console]")
        for name in ("authorization_endpoint", "token_endpoint")
    },
    **{
        f"{name}_at_another_origin": (
            f"its metadata says that its {name} is at another origin",
            f"if that is right, set {name} in [console] to that address",
        )
        for name in ("authorization_endpoint", "token_endpoint")
    },
    # Of a token endpoint.
    "redirected": ("it redirects, which is never followed", "set token_endpoint to where it leads"),
    "not_a_token_endpoint": (
        "it does not refuse as a token endpoint does",
        "check token_endpoint against the authorization server's metadata",
    ),
}


def advice_on(code: str, detail: str = "") -> Advice:
    """``detail`` is shown in brackets; a code that is not known here is shown as it is."""
    if code.startswith("status_"):
        told, advice = f"answers with status {code.removeprefix('status_')}", _CHECK_KEYS
    else:
        told, advice = _KNOWN.get(code, (code, _CHECK_SERVER))
    return Advice(code, f"{told} ({detail})" if detail else told, advice)
