"""``relay keys``: the owners' two keys, by their ids; never a key itself."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from relay.cli.agents import account, as_json
from relay.cli.running import FAILED, Failure, Session, opened, print_json, run
from relay.cli.tables import print_table
from relay.clock import rfc3339

if TYPE_CHECKING:
    from relay.config import Config
    from relay.identity.keyfiles import KeyName
    from relay.identity.owner_keys import OwnerKeys
    from relay.operators.rotation import KeyUse, Moved
    from relay.storage.engine import Database

KINDS: Mapping[str, "KeyName"] = {"pepper": "pepper", "sealing-key": "sealing_key"}


@click.group()
def keys() -> None:
    """Look at the owners' two keys, and rotate them.

    The pepper finds owners, the sealing key seals their subjects. `docs/running.md` tells how to rotate them while the
    relay runs.
    """


@keys.command("show")
@as_json
@click.pass_obj
def show_keys(session: Session, *, as_json: bool) -> None:
    """Show each key's id, its file, and how many owners are stored under it.

    Works with files missing too, so that it tells which one to look for.
    """
    config = session.load()

    async def look() -> "list[KeyUse]":
        from relay.operators import rotation
        from relay.storage import schema

        async with opened(config) as db:
            await schema.require_current(db)
            return await rotation.uses(db)

    shown = keys_shown(config, run(look()))
    if as_json:
        print_json(shown)
        return
    print_table(
        ("key", "id", "in force", "owners", "since", "file"),
        [
            (
                each["key"],
                each["kid"],
                "yes" if each["inForce"] else "",
                each["owners"],
                each["since"] or "",
                where(each),
            )
            for each in shown
        ],
    )


def where(shown: Mapping[str, Any]) -> str:
    return str(shown["file"] or ("MISSING" if shown["needed"] else "none: not needed"))


def keys_shown(config: "Config", uses: "Sequence[KeyUse]") -> list[dict[str, Any]]:
    """What the database knows joined with what the files hold; a file's key that the database does not know too."""
    files = files_by_key(config)
    shown = [
        {
            "key": use.name,
            "kid": use.kid,
            "inForce": use.in_force,
            "owners": use.owners,
            "needed": use.in_force or use.owners > 0,
            "since": None if use.since is None else rfc3339(use.since),
            "file": files.pop((use.name, use.kid), None),
        }
        for use in uses
    ]
    new = {"inForce": False, "owners": 0, "needed": False, "since": None}
    return shown + [{"key": name, "kid": kid, **new, "file": file} for (name, kid), file in files.items()]


def files_by_key(config: "Config") -> dict[tuple[str, str], str]:
    """The file of each key that can be read. One that cannot is told on stderr."""
    from relay.errors import StartupError
    from relay.identity import keyfiles

    owners = config.owners
    named: list[tuple[KeyName, Path, bool]] = [
        ("pepper", owners.pepper_file, False),
        *(("pepper", path, True) for path in owners.previous_pepper_files),
        ("sealing_key", owners.sealing_key_file, False),
        *(("sealing_key", path, True) for path in owners.previous_sealing_key_files),
    ]
    found: dict[tuple[str, str], str] = {}
    for name, path, previous in named:
        try:
            key = keyfiles.read(name, path, previous=previous)
        except StartupError as error:
            click.echo(f"relay: {error}", err=True)
        else:
            found[name, key.kid] = str(path)
    return found


@keys.command("new")
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def new_key(kind: str, file: Path) -> None:
    """Make a new key in FILE, readable by its user only, and print its id.

    A file that is there already is never overwritten.
    """
    from relay.identity import keyfiles

    try:
        key = keyfiles.create(KINDS[kind], file)
    except FileExistsError:
        raise Failure(f"{file} is there already: a key is never overwritten", FAILED) from None
    except OSError as error:
        raise Failure(f"{file} cannot be made: {error.strerror}", FAILED) from None
    click.echo(key.kid)


@keys.command()
@click.option("--dry-run", is_flag=True, help="Count what would be done, and change nothing.")
@click.option("--why", default=None, help="The reason, for the audit log.")
@click.option("--by", default=None, metavar="NAME", help="Who decides. Left out: this account's name.")
@as_json
@click.pass_obj
def rotate(session: Session, /, *, dry_run: bool, why: str | None, by: str | None, as_json: bool) -> None:
    """Put the configured keys in force, and move owners to them.

    First give every gateway and worker the new configuration: those without it cannot serve new owners any more. It
    may be stopped and run again at any time, beside running gateways. Owners whose subject is not sealed are moved
    when they next come. Then it tells which former key files are still needed.
    """
    config = session.load()
    result, uses = run(carry_out(config, dry_run=dry_run, by=f"cli:{by or account()}", why=why))
    after = keys_shown(config, uses)
    if as_json:
        print_json({"dryRun": dry_run, **result.shown(), "keys": after})
    else:
        tell(result, after, dry_run=dry_run)
    if result.unreadable:
        raise Failure(
            f"{result.unreadable} sealed subjects cannot be opened: they are damaged, and stay as they are", FAILED
        )


async def carry_out(config: "Config", *, dry_run: bool, by: str, why: str | None) -> "tuple[Moved, list[KeyUse]]":
    from relay.operators import rotation

    async with opened(config) as db:
        process = rotation.Rotation(db, await owner_keys(config, db))
        if dry_run:
            result = await process.look()
        else:
            with progress(await process.pending()) as advance:
                result = await process.run(by, why, advance)
        return result, await rotation.uses(db)


async def owner_keys(config: "Config", db: "Database") -> "OwnerKeys":
    import msgspec

    from relay.identity.owner_keys import OwnerKeys
    from relay.storage import schema

    await schema.require_current(db)
    return await OwnerKeys.load(db, **msgspec.structs.asdict(config.owners))


@contextmanager
def progress(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where somebody is watching."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("owners", total=total)
        yield lambda done: bar.advance(task, done)


def tell(result: "Moved", after: list[dict[str, Any]], *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    click.echo(f"subjects {would}sealed anew: {result.resealed}")
    click.echo(f"owners {would}moved to the pepper: {result.rekeyed}")
    click.echo(f"owners {would}left until they next come: {result.absent}")
    for each in after:
        if dry_run or each["inForce"] or each["since"] is None:
            continue
        name = f"{each['key'].replace('_', ' ')} {each['kid']} ({each['file'] or 'no file'})"
        told = f"still needed, owners: {each['owners']}" if each["needed"] else "not needed any more"
        click.echo(f"{name}: {told}")
