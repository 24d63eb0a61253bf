"""Whether a gateway's memory grows with what it has accepted."""

import re
from contextlib import AsyncExitStack
from pathlib import Path

from bench import stage
from bench.results import Measured

EARLY = 1_000


async def memory(directory: Path, cluster: stage.Cluster, most: int) -> list[Measured]:
    """Resident memory of ``relay serve`` after ``most`` submissions, against `EARLY`."""
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(stage.world(directory, cluster.database()))
        port = await stack.enter_async_context(stage.relay(world.config))
        pid = _pid(world.config)
        accepted, number, early = 0, 0, 0.0
        while accepted < most:
            await stage.tasks(world, f"m{number}", 40_000)
            load = await stage.load(port, world, f"m{number}", number, seconds=1 if not early else 5, connections=32)
            accepted, number = accepted + load.done, number + 1
            if not early and accepted >= EARLY:
                early = _resident(pid)
        late = _resident(pid)
    return [
        Measured(f"memory after {accepted:,} submissions", f"after {EARLY:,}", "MiB", [late], [early], 1.1, less=True)
    ]


def _pid(config: Path) -> int:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (entry / "cmdline").exists():
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            if b"serve" in arguments and str(config).encode() in arguments:
                return int(entry.name)
    raise LookupError("the relay's process is not there")


def _resident(pid: int) -> float:
    """In MiB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    if found is None:
        raise LookupError("the relay's process has ended")
    return int(found[1]) / 1024
