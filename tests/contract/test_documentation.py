"""What docs/api.md shows works as printed, and it leaves out no operation, code or state."""

import argparse
import json
import re
import shlex
from pathlib import Path
from typing import Any, get_args

import pytest

from relay.delivery.model import State
from relay.errors import CODES, Refusal
from relay.feedback.wire import FeedbackBody
from relay.http.fields import decode
from relay.http.problems import problem_response
from relay.operators.agents.wire import ProposalBody
from relay.provenance.wire import TaskBody
from tests.support.contract import OPERATIONS
from tests.support.gateway import Gateway

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
ORIGIN = "http://127.0.0.1:8080"
VARYING = {"createdAt", "finishedAt", "savedAt", "at", "ownerKey"}


def session() -> list[tuple[argparse.Namespace, Any]]:
    """Every curl command of the page, with the JSON printed below it."""
    curl = argparse.ArgumentParser()
    curl.add_argument("-s", action="store_true")
    curl.add_argument("-X", dest="method")
    curl.add_argument("-H", dest="headers", action="append")
    curl.add_argument("-d", dest="data")
    curl.add_argument("url")
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exchanges = []
    for exchange in re.split(r"^\$ curl ", "".join(blocks), flags=re.MULTILINE)[1:]:
        command, printed = re.split(r"(?<!\\)\n", exchange, maxsplit=1)
        exchanges.append((curl.parse_args(shlex.split(command.replace("\\\n", " "))), json.loads(printed)))
    return exchanges


def without_what_varies(value: Any) -> Any:
    """The same with each instant and random key replaced, so that there being one is still compared."""
    if isinstance(value, list):
        return [without_what_varies(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: "it varies" if name in VARYING and item is not None else without_what_varies(item)
        for name, item in value.items()
    }


async def test_the_session_answers_as_printed(gateway: Gateway):
    """Every exchange, in order, against a relay with two specialists."""
    tokens = {"$WORKBENCH": gateway.machine, "$ALICE": gateway.token("alice")}
    exchanges = session()
    assert len(exchanges) == 7
    for asked, printed in exchanges:
        headers = dict(header.split(": ", 1) for header in asked.headers)
        for variable, token in tokens.items():
            headers["Authorization"] = headers["Authorization"].replace(variable, token)
        method = asked.method or ("POST" if asked.data else "GET")
        data = asked.data.encode() if asked.data else None
        answered = await gateway.call(method, asked.url.removeprefix(ORIGIN), data=data, headers=headers)
        assert without_what_varies(answered.json) == without_what_varies(printed)


def test_every_operation_and_scope_is_on_the_page():
    """Each with its method, its path as it is documented, and the scopes that it asks for."""
    for method, path, operation in OPERATIONS:
        assert f"`{method} {path}`" in PAGE
        for requirement in operation["security"]:
            assert all(f"`{scope}`" in PAGE for scope in requirement["bearer"])


def test_every_code_stands_with_its_status():
    """In a table, or in a sentence that begins with the status."""
    for code, (status, _) in CODES.items():
        assert f"`{code}` | {status} |" in PAGE or f"{status} `{code}`" in PAGE, code
    named = re.findall(r"^\| `(\w+)` \| (\d{3}) \|", PAGE, re.MULTILINE)
    assert {(code, int(status)) for code, status in named} <= {(code, status) for code, (status, _) in CODES.items()}


def test_every_state_is_explained():
    """Each in the table of states, and none that does not exist."""
    table = PAGE.partition("### States")[2].partition("\n\n`lastAttempt`")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(get_args(State))


def test_every_field_of_a_body_is_explained():
    """In the table of the operation that takes it."""
    sections = (
        (FeedbackBody, "## Rating"),
        (TaskBody, "## Recording provenance"),
        (ProposalBody, "## Operating agents"),
    )
    for body, heading in sections:
        section = PAGE.partition(heading)[2].partition("| code |")[0]
        for name in body.__struct_encode_fields__:
            assert f"`{name}`" in section, name


def test_the_problem_document_is_a_real_one():
    """As a body with a wrong rating gets it."""
    [printed] = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    body = {"id": "7c9e6679-7425-40de-944b-e07fc1f90ae7", "taskId": "task-1", "rating": "thumbup"}
    with pytest.raises(Refusal) as refused:
        decode(body, FeedbackBody)
    answer = problem_response(refused.value)
    assert isinstance(answer.body, bytes)
    assert json.loads(answer.body) == json.loads(printed)
