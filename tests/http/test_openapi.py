"""The OpenAPI document is made of what handlers declare, and of nothing else."""

import json
from typing import Any, Literal

import msgspec
import pytest
from aiohttp import web
from openapi_spec_validator import validate

from relay.errors import CODES
from relay.http.openapi import document
from relay.http.operations import Answer, Carrying, Operation, described
from relay.http.parameters import Page, segment


class Thing(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A thing with a ``name``,
    on two lines.
    """

    long_name: str
    note: str | None = None


Tone = Literal["loud", "quiet"]


class Sound(msgspec.Struct, frozen=True):
    tone: Tone
    echo: Tone | None = None
    kind: Literal["bell", "horn"] = "horn"
    tags: tuple[str, ...] = ()
    more: dict[str, Any] = {}


class Sounds(Page, frozen=True, kw_only=True):
    tone: Tone | None = None


class Filters(Page, frozen=True, kw_only=True):
    wanted: str
    note: str | None = None


def route(operation: Operation, *, path: str = "/things", method: str = "GET") -> web.RouteDef:
    """A route whose handler was declared to do this."""

    @described(operation)
    async def handler(_request: web.Request) -> web.Response:
        """Do a thing.

        Mark ``code``, and
        wrap lines.
        """
        return web.Response()

    return web.RouteDef(method, path, handler, {"name": "do"})


def made(**declared: Any) -> dict[str, Any]:
    """The document of one operation, which is valid OpenAPI."""
    declared.setdefault("answers", {200: Answer("Done.", Thing)})
    whole = document([route(Operation(**{"tag": "feedback", **declared}))], {"Tone": Tone})
    validate(whole)
    return whole


def the_operation(**declared: Any) -> dict[str, Any]:
    operation: dict[str, Any] = made(**declared)["paths"]["/things"]["get"]
    return operation


def codes_of(whole: dict[str, Any], reference: dict[str, str]) -> set[str]:
    """The codes of the problems behind a reference to a response."""
    response = whole["components"]["responses"][reference["$ref"].rpartition("/")[2]]
    schema = response["content"]["application/problem+json"]["schema"]
    return {code for one in schema.get("oneOf", [schema]) for code in one["allOf"][1]["properties"]["code"]["enum"]}


def codes(**declared: Any) -> set[str]:
    """All codes with which the operation may refuse."""
    whole = made(**declared)
    responses = whole["paths"]["/things"]["get"]["responses"].values()
    return {code for response in responses if "$ref" in response for code in codes_of(whole, response)}


def test_a_docstring_becomes_summary_and_description():
    """Its first paragraph is the summary; code is marked as in CommonMark, paragraphs are unwrapped."""
    operation = the_operation()
    assert operation["summary"] == "Do a thing."
    assert operation["description"] == "Mark `code`, and wrap lines."
    assert operation["operationId"] == "do"


def test_a_struct_becomes_a_component():
    """Under its class's name, with the names of the wire, closed where unknown fields are refused."""
    thing = made()["components"]["schemas"]["Thing"]
    assert set(thing["properties"]) == {"longName", "note"}
    assert thing["required"] == ["longName"]
    assert thing["additionalProperties"] is False
    assert thing["description"] == "A thing with a `name`, on two lines."


def test_words_with_a_name_become_a_component():
    """Wherever they stand, so that a client has one type for them; others stand where they are, with their type."""
    whole = made(query=Sounds, body=Sound)
    reference = {"$ref": "#/components/schemas/Tone"}
    assert whole["components"]["schemas"]["Tone"] == {"type": "string", "enum": ["loud", "quiet"]}
    properties = whole["components"]["schemas"]["Sound"]["properties"]
    assert properties["tone"] == reference
    assert properties["echo"] == {"anyOf": [reference, {"type": "null"}]}
    assert properties["kind"] == {"type": "string", "enum": ["bell", "horn"], "default": "horn"}
    assert [p["schema"] for p in whole["paths"]["/things"]["get"]["parameters"] if p["name"] == "tone"] == [reference]


def test_what_may_be_left_out_has_no_empty_default():
    """Generators take a member with a default for one that is always there, also in what is sent."""
    properties = made(body=Sound)["components"]["schemas"]["Sound"]["properties"]
    assert [name for name, schema in properties.items() if "default" in schema] == ["kind"]


def test_an_object_of_any_members_says_so():
    """Generators take one that does not for an object without members."""
    more = made(body=Sound)["components"]["schemas"]["Sound"]["properties"]["more"]
    assert more == {"type": "object", "additionalProperties": True}


def test_the_same_words_have_one_name():
    """Otherwise it would be left to chance which."""
    with pytest.raises(ValueError, match="two names"):
        document([], {"Tone": Tone, "Volume": Literal["quiet", "loud"]})


def test_a_path_loses_its_patterns():
    """The router's pattern of a segment is not part of a path template."""
    operation = Operation(tag="feedback", path={"id": str}, answers={200: Answer("Done.")})
    whole = document([route(operation, path=f"/things/{segment('id')}/now")])
    validate(whole)
    assert list(whole["paths"]) == ["/things/{id}/now"]


def test_a_query_becomes_parameters():
    """One each, required where the Struct has no default; null, which no query can say, is left out."""
    parameters = {p["name"]: p for p in the_operation(query=Filters)["parameters"]}
    assert set(parameters) == {"limit", "cursor", "wanted", "note"}
    assert parameters["wanted"]["required"] is True
    assert parameters["note"] == {"name": "note", "in": "query", "required": False, "schema": {"type": "string"}}
    assert parameters["limit"]["schema"] == {"type": "integer", "minimum": 1, "maximum": 100, "default": 50}


def test_a_scope_brings_security_and_its_refusals():
    """Any one of the scopes will do; without scopes there is no security and no 401."""
    operation = the_operation(scopes=("feedback:read", "provenance:write"))
    assert operation["security"] == [{"bearer": ["feedback:read"]}, {"bearer": ["provenance:write"]}]
    assert "Scope: `feedback:read` or `provenance:write`." in operation["description"]
    token = {"unauthenticated", "insufficient_scope", "keys_unavailable"}
    assert codes(scopes=("feedback:read",)) - codes() == token
    assert the_operation()["security"] == []


def test_an_operators_scope_brings_its_challenge():
    """An operation for operators may send them to sign in again."""
    assert codes(scopes=("operator:read",)) - codes(scopes=("feedback:read",)) == {"insufficient_user_authentication"}


def test_all_but_those_who_watch_are_limited():
    """Any operation may be asked for too often, but for those of health and metrics."""
    assert codes() - codes(tag="operation") == {"rate_limited"}


def test_what_is_read_brings_its_refusals():
    """A body, a query and a database each bring what can go wrong with them."""
    assert codes(body=Thing) - codes() == {
        "malformed_json",
        "request_timeout",
        "body_too_large",
        "unsupported_media_type",
        "unsupported_content_encoding",
        "invalid_field",
    }
    assert codes() - codes(query=None) == {"invalid_parameter"}
    assert codes() - codes(database=False) == {"database_unavailable"}


def test_own_refusals_stand_under_their_status():
    """With the member that a problem carries."""
    whole = made(refusals=("uuid_reused", Carrying("already_submitted", "existing", Thing)))
    reference = whole["paths"]["/things"]["get"]["responses"]["409"]
    assert codes_of(whole, reference) == {"uuid_reused", "already_submitted"}
    response = whole["components"]["responses"]["uuid_reused.already_submitted"]
    plain, carrying = response["content"]["application/problem+json"]["schema"]["oneOf"]
    assert "existing" not in plain["allOf"][1]["properties"]
    assert carrying["allOf"][1]["required"] == ["code", "status", "existing"]


def test_every_code_is_listed():
    """With its status and title, for whoever writes a client."""
    schema = made()["components"]["schemas"]["ProblemCode"]
    assert schema["enum"] == list(CODES)
    for code, (status, title) in CODES.items():
        assert f"| `{code}` | {status} " in schema["description"]
        assert title in schema["description"]


def test_an_undescribed_route_is_an_error():
    """A route cannot be served and left out of the document."""

    async def handler(_request: web.Request) -> web.Response:
        return web.Response()

    with pytest.raises(LookupError, match="without a description"):
        document([web.get("/things", handler)])


def test_two_types_of_one_name_are_an_error():
    """Otherwise one of them would be described as the other."""
    other = msgspec.defstruct("Thing", [("other", int)])
    with pytest.raises(ValueError, match="called Thing"):
        made(body=other)


def test_a_status_is_an_answer_or_a_refusal():
    """A client tells them apart by the status."""
    with pytest.raises(ValueError, match="400 is an answer and a refusal"):
        made(answers={400: Answer("Done.")})


def test_the_document_is_json():
    """All of it, as it stands."""
    whole = made(query=Filters, body=Thing)
    assert json.loads(msgspec.json.encode(whole)) == whole
