"""The demonstration's processes: an issuer, two specialists, a relay and a Workbench, each of its own."""

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from registry.egress import Egress, EgressFailure, EgressPolicy, Exchange
from relay.demo.authority import Authority
from relay.demo.clients import CONSOLE_KEY_FILE
from relay.demo.process import url_of_page

READY_SECONDS = 60.0
STOP_SECONDS = 5.0
AGENTS: Mapping[str, str] = {"literature": "Literature specialist", "chemistry": "Chemistry specialist"}
# One specialist takes the relay's word for an owner who is away; the other wants the owner's own sign-in.
OWNER_MODES: Mapping[str, str] = {"literature": "owner_assertion", "chemistry": "token_exchange"}

CONFIG = """\
# Written by `relay demo`; config.example.toml in the repository documents every key.
[server]
port = {port}
public_url = "{relay}"
cors_origins = ["{workbench}"]  # whose pages may ask this relay
development = true            # the issuer speaks plain http on loopback, the specialists' name is localhost

[database]
url = "sqlite:///relay.db"

[owners]
pepper_file = "secrets/pepper"
sealing_key_file = "secrets/sealing-key"

[[identity.issuers]]
issuer = "{issuer}"
audience = "{relay}"
tenant_claim = "tenant"

[identity.clients.workbench]
agents = ["*"]
on_behalf_of = ["{issuer}"]

[registry]
admin_issuers = ["{issuer}"]

[operators.cli]
client_id = "relay-cli"

[delivery]
deadline_seconds = 5
lease_seconds = 15
schedule = ["0s", "1s", "1s", "2s", "2s", "5s", "5s", "10s", "30s", "1m", "5m", "1h"]

[egress]
ca_file = "{ca_file}"

[console]
issuer = "{issuer}"
client_id = "console"
key_file = "{console_key_file}"
scopes = ["openid", "offline_access", "operator:read", "operator:write", "registry:admin"]
"""

AGENT = """
[[agents]]
id = "{id}"
name = "{name}"
origin = "{origin}"
protocol = "roblox-v1"
  [[agents.credentials]]      # tasks that ran under the owner's own identity
  mode = "{owner_mode}"
  client_id = "workbench"
  issuer = "{issuer}"
  token_endpoint = "{issuer}/token"
  key_file = "{key_file}"
  resource = "{origin}"
  scope = "feedback:write"
  [[agents.credentials]]      # tasks that ran as the Workbench itself
  mode = "client_credentials"
  client_id = "workbench"
  issuer = "{issuer}"
  token_endpoint = "{issuer}/token"
  key_file = "{key_file}"
  resource = "{origin}"
  scope = "feedback:write"
"""


class StageError(RuntimeError):
    """A process of the demonstration did not do its part."""


@dataclass
class Server:
    """One process. ``arguments`` follow the interpreter; its log goes to ``log``."""

    name: str
    arguments: list[str]
    log: Path
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self.arguments,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                stdin=asyncio.subprocess.DEVNULL,
            )

    async def ready_line(self) -> dict[str, Any]:
        """The JSON line that a server of ours prints when it listens."""
        if self.process is None or self.process.stdout is None:
            raise StageError(f"{self.name} was not started")
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), READY_SECONDS)
        except TimeoutError:
            line = b""
        if not line:
            raise StageError(f"{self.name} did not start; its log is {self.log}")
        ready: dict[str, Any] = json.loads(line)
        return ready

    async def stop(self) -> None:
        """Ask it to stop, then insist."""
        if self.process is None or self.process.returncode is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.process.wait(), STOP_SECONDS)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()


@dataclass
class Stage:
    """Everything that runs, with the addresses and tokens that a visitor needs."""

    directory: Path
    relay: str
    issuer: str
    workbench: str
    ca_file: Path
    origins: dict[str, str]
    servers: dict[str, Server]
    egress: Egress
    tokens: dict[str, str] = field(default_factory=dict)

    async def call(
        self,
        method: str,
        url: str,
        *,
        token: str | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Exchange:
        """One request, through the same guarded door that the relay itself uses."""
        sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        raw = None
        if body is not None:
            raw = json.dumps(body, ensure_ascii=False).encode()
            sent["Content-Type"] = "application/json"
        return await self.egress.exchange(method, url, headers=sent, body=raw, deadline=15)

    async def token(self, user: str, **wanted: str) -> str:
        """A token of the demonstration's issuer; by default for the relay."""
        answer = await self.call("POST", f"{self.issuer}/demo/token", body={"user": user, **wanted})
        if answer.status != 200:  # noqa: PLR2004
            raise StageError(f"the issuer gave no token for {user}: {answer.status}")
        return str(json.loads(answer.body)["access_token"])

    @property
    def console(self) -> str:
        """Where operators look after the relay with a browser."""
        return f"{self.relay}/console"

    async def wait_until_ready(self) -> None:
        """Return once the relay takes requests."""
        async with asyncio.timeout(READY_SECONDS):
            while not await self._is_ready():  # noqa: ASYNC110 - another process: there is nothing to wait on
                await asyncio.sleep(0.1)

    async def _is_ready(self) -> bool:
        process = self.servers["relay"].process
        if process is not None and process.returncode is not None:
            raise StageError(f"the relay ended with {process.returncode}; its log is {self.servers['relay'].log}")
        try:
            return (await self.call("GET", f"{self.relay}/readyz")).status == 200  # noqa: PLR2004
        except EgressFailure:
            return False


@asynccontextmanager
async def set_up(directory: Path) -> AsyncIterator[Stage]:
    """Start everything, and stop it on leaving."""
    relay_port, workbench_port = _free_ports(2)
    relay = f"http://127.0.0.1:{relay_port}"
    workbench = url_of_page(workbench_port)
    authority = Authority.open(directory / "authority")
    async with AsyncExitStack() as stack:
        issuer = await _start(
            stack,
            directory,
            "issuer",
            [
                *("-m", "relay.demo.issuer", "--relay", relay, "--state", str(directory / "issuer")),
                *("--page", f"{workbench}/"),
            ],
        )
        issuer_url = str((await issuer.ready_line())["url"])
        servers = {"issuer": issuer}
        origins = {}
        for agent in AGENTS:
            servers[agent] = await _start(stack, directory, agent, _specialist(directory, agent, issuer_url, 0))
        for agent in AGENTS:
            origins[agent] = str((await servers[agent].ready_line())["url"])
            # A restart must find the same address.
            port = int(origins[agent].rpartition(":")[2])
            servers[agent].arguments = _specialist(directory, agent, issuer_url, port)
        addresses = {"relay": relay, "issuer": issuer_url, "workbench": workbench}
        config = _write_config(directory, relay_port, addresses, authority.ca_file, origins)
        servers["relay"] = await _start(stack, directory, "relay", ["-m", "relay", "--config", str(config), "serve"])
        served = _workbench(addresses, authority.ca_file, origins, workbench_port)
        servers["workbench"] = await _start(stack, directory, "workbench", served)
        await servers["workbench"].ready_line()
        policy = EgressPolicy(development=True, ca_file=str(authority.ca_file))
        egress = await stack.enter_async_context(Egress(policy))
        stage = Stage(directory, relay, issuer_url, workbench, authority.ca_file, origins, servers, egress)
        await stage.wait_until_ready()
        for user in ("alice", "bob", "operator", "workbench"):
            stage.tokens[user] = await stage.token(user)
        yield stage


async def _start(stack: AsyncExitStack, directory: Path, name: str, arguments: list[str]) -> Server:
    server = Server(name, arguments, directory / f"{name}.log")
    await server.start()
    stack.push_async_callback(server.stop)
    return server


def _specialist(directory: Path, agent: str, issuer: str, port: int) -> list[str]:
    return [
        *("-m", "relay.demo.specialist", "--agent", agent, "--issuer", issuer, "--port", str(port)),
        *("--state", str(directory / agent), "--authority", str(directory / "authority")),
    ]


def _workbench(addresses: Mapping[str, str], ca_file: Path, origins: Mapping[str, str], port: int) -> list[str]:
    return [
        *("-m", "relay.demo.workbench", "--relay", addresses["relay"], "--issuer", addresses["issuer"]),
        *("--ca-file", str(ca_file), "--port", str(port)),
        *(word for agent, name in AGENTS.items() for word in ("--specialist", agent, name, origins[agent])),
    ]


def _write_config(
    directory: Path, port: int, addresses: Mapping[str, str], ca_file: Path, origins: Mapping[str, str]
) -> Path:
    key_file = directory / "issuer" / "workbench.pem"
    console_key_file = directory / "issuer" / CONSOLE_KEY_FILE
    parts = [CONFIG.format(**addresses, port=port, ca_file=ca_file, console_key_file=console_key_file)]
    parts += [
        AGENT.format(
            id=agent,
            name=name,
            origin=origins[agent],
            issuer=addresses["issuer"],
            key_file=key_file,
            owner_mode=OWNER_MODES[agent],
        )
        for agent, name in AGENTS.items()
    ]
    path = directory / "relay.toml"
    path.write_text("".join(parts))
    return path


def _free_ports(count: int) -> list[int]:
    with ExitStack() as listening:
        listeners = [listening.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(listener.getsockname()[1]) for listener in listeners]
