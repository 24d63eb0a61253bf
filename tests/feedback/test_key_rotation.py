"""What callers and specialists notice of a rotation of the owners' keys: nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from joserfc.jwk import ECKey

from relay.config import Config, load
from relay.identity import keyfiles
from relay.identity.owner_keys import OwnerKeys
from relay.operators.rotation import Rotation
from tests.feedback.test_events import stream
from tests.support.gateway import Gateway, gateway, new_id, write_config
from tests.support.issuer import TestIssuer
from tests.support.specialist import Specialist, acknowledge, answering
from tests.support.token_endpoint import TokenEndpoint

ASSERTING = """
[[agents]]
id = "literature"
name = "Literature"
origin = "{origin}"
protocol = "roblox-v1"
  [[agents.credentials]]
  mode = "owner_assertion"
  client_id = "workbench"
  issuer = "{issuer}"
  token_endpoint = "{token_endpoint}"
  key_file = "assertions.pem"
  resource = "{origin}"
"""


@dataclass
class Deployment:
    """Gateways of the former and of the new configuration over one database, and who is around them."""

    issuer: TestIssuer
    specialist: Specialist
    tokens: TokenEndpoint
    key: ECKey
    file: Path

    def config(self, *numbers: int) -> Config:
        """The configuration that names the key files of these numbers, the current ones first."""
        current, *former = numbers
        head, rest = self.file.read_text().split('pepper_file = "pepper"\nsealing_key_file = "sealing-key"\n')
        lines = [f'pepper_file = "pepper-{current}"', f'sealing_key_file = "sealing_key-{current}"']
        lines += [f"previous_{name}_files = {[f'{name}-{n}' for n in former]}" for name in ("pepper", "sealing_key")]
        path = self.file.with_name(f"relay-{'-'.join(map(str, numbers))}.toml")
        path.write_text(head + "\n".join(lines) + "\n" + rest)
        return load(path, {})

    @asynccontextmanager
    async def gateway(self, *numbers: int, worker: bool = False) -> AsyncIterator[Gateway]:
        async with gateway(self.config(*numbers), self.issuer, worker=worker) as running:
            yield running

    async def rotate(self, beside: Gateway, *numbers: int) -> None:
        owners = self.config(*numbers).owners
        keys = await OwnerKeys.load(
            beside.relay.db,
            owners.pepper_file,
            owners.sealing_key_file,
            previous_pepper_files=owners.previous_pepper_files,
            previous_sealing_key_files=owners.previous_sealing_key_files,
        )
        await Rotation(beside.relay.db, keys).run("cli:root", None, lambda _: None)


@pytest.fixture
async def deployment(tmp_path: Path, database_url: str) -> AsyncIterator[Deployment]:
    key = ECKey.generate_key("P-256")
    (tmp_path / "assertions.pem").touch(mode=0o600)
    (tmp_path / "assertions.pem").write_bytes(key.as_pem(private=True))
    for number in (1, 2):
        keyfiles.create("pepper", tmp_path / f"pepper-{number}")
        keyfiles.create("sealing_key", tmp_path / f"sealing_key-{number}")
    specialist = Specialist()
    await specialist.start()
    async with TestIssuer() as issuer, TokenEndpoint() as tokens:
        file = write_config(tmp_path, database_url, issuer, {})
        agent = ASSERTING.format(origin=specialist.origin, issuer=issuer.url, token_endpoint=tokens.url)
        file.write_text(file.read_text() + agent)
        yield Deployment(issuer, specialist, tokens, key, file)
    await specialist.stop()


async def test_a_rating_from_before_goes_out_as_the_same_person(deployment: Deployment):
    """Rated under the former keys, it is delivered after the rotation by a process that has the new ones alone."""
    submission = new_id()
    deployment.specialist.behave = answering(503)
    async with deployment.gateway(1) as old:
        await old.record("t1", ranAs="owner")
        assert (await old.rate("t1", id=submission)).status == 202
        await deployment.rotate(old, 2, 1)
    deployment.tokens.forms.clear()
    deployment.specialist.behave = acknowledge
    async with deployment.gateway(2, worker=True) as new:
        await new.until(submission, "saved")
    assert {
        deployment.tokens.assertion("assertion", deployment.key, n).claims["sub"]
        for n in range(len(deployment.tokens.forms))
    } == {"alice"}


async def test_gateways_of_both_configurations_serve_the_same_owner(deployment: Deployment):
    """Before the rotation each takes ratings of the other's tasks; one that was left out answers 503 after it."""
    async with deployment.gateway(1) as old, deployment.gateway(2, 1) as new:
        await new.record("t1", ranAs="owner")
        assert (await old.rate("t1")).status == 201
        await old.record("t2", ranAs="owner")
        assert (await new.rate("t2")).status == 201
        await deployment.rotate(new, 2, 1)
        await new.record("t3", ranAs="owner")
        assert (await new.rate("t3")).status == 201
        assert (await old.rate("t3")).code == "already_submitted"  # alice is remembered
        unknown = await old.rate("t3", sub="bob")
        assert (unknown.status, unknown.code, unknown.headers["Retry-After"]) == (503, "keys_unavailable", "5")
        assert (await new.rate("t3", sub="bob")).code == "task_not_found"
        assert len(await new.rows("SELECT id FROM owners WHERE kind = 'human'")) == 1


async def test_positions_from_before_are_read(deployment: Deployment):
    """A cursor and a Last-Event-ID of the former pepper go on, until that is gone: then it is the 400 of any other."""
    async with deployment.gateway(1) as old:
        for task in ("t1", "t2", "t3"):
            await old.record(task, ranAs="owner")
            assert (await old.rate(task)).status == 201
        page = (await old.call("GET", "/api/feedback?limit=1", token=old.token())).json
        async with stream(old, old.token()) as events:
            last = (await events.block())["id"]
        await old.record("t4", ranAs="owner")
        submission = (await old.rate("t4")).json["id"]
        await deployment.rotate(old, 2, 1)
    path = f"/api/feedback?limit=1&cursor={page['next']}"
    async with deployment.gateway(2, 1) as new:
        following = await new.call("GET", path, token=new.token())
        assert [item["taskId"] for item in following.json["items"]] == ["t2"]
        assert following.json["next"] != page["next"]
        async with stream(new, new.token(), last=last) as events:
            assert (await events.until("saved"))["submission"]["id"] == submission
        fresh = following.json["next"]
    async with deployment.gateway(2) as alone:
        refused = await alone.call("GET", path, token=alone.token())
        assert (refused.status, refused.code) == (400, "invalid_parameter")
        resumed = await alone.call("GET", "/api/feedback/events", token=alone.token(), headers={"Last-Event-ID": last})
        assert (resumed.status, resumed.code) == (400, "invalid_parameter")
        onward = await alone.call("GET", f"/api/feedback?limit=1&cursor={fresh}", token=alone.token())
        assert [item["taskId"] for item in onward.json["items"]] == ["t1"]
