"""``relay owners``: finding the owner that a person is, and erasing them when they ask for it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from relay.cli.agents import account, as_json
from relay.cli.keys import owner_keys
from relay.cli.retention import progress
from relay.cli.running import FAILED, WRONG_CONFIGURATION, Failure, Session, opened, print_json, run
from relay.cli.tables import print_table

if TYPE_CHECKING:
    from relay.config import Config
    from relay.identity.model import OwnerTuple
    from relay.retention.model import Copies, Erasure

MOST_BYTES = 4096
"""More than any subject has: what is longer is another file."""


@click.group()
def owners() -> None:
    """Find the owner that a person is, and erase them on their request.

    An owner is one person (or machine) through one client of one issuer: somebody who uses several clients is several
    owners. They are named by their owner key, which says nothing of who they are.
    """


@owners.command()
@click.option("--issuer", required=True, help="The issuer of the person's tokens, as the configuration names it.")
@click.option(
    "--client",
    required=True,
    help="The client through which the person came; '' for the name under which they operate the relay.",
)
@click.option(
    "--subject-file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="A file that holds the subject of the person's tokens, - for standard input. A subject is no argument, since"
    " every user of this machine sees those. Left out: the machine client itself.",
)
@as_json
@click.pass_obj
def find(session: Session, /, *, issuer: str, client: str, subject_file: Path | None, as_json: bool) -> None:
    """Print the owner key of a person, or of a machine client."""
    from relay.identity.model import OwnerTuple

    if subject_file is None:
        wanted = OwnerTuple("machine", issuer, client, client)
    else:
        wanted = OwnerTuple("human", issuer, client, subject_in(subject_file))
    key = run(key_of(session.load(), wanted))
    if key is None:
        raise Failure("there is no such owner: nothing was ever stored for them", FAILED)
    if as_json:
        print_json({"ownerKey": key})
    else:
        click.echo(key)


def subject_in(file: Path) -> str:
    """The one line of the file, as it is but for the line's end."""
    try:
        with click.open_file(str(file), "rb") as stream:
            subject: bytes = stream.read(MOST_BYTES + 1)
        text = subject.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}", WRONG_CONFIGURATION) from None
    except UnicodeDecodeError:
        raise Failure(f"{file} is not UTF-8", WRONG_CONFIGURATION) from None
    if not text or "\n" in text or len(subject) > MOST_BYTES:
        raise Failure(f"{file} must hold one subject, on one line", WRONG_CONFIGURATION)
    return text


async def key_of(config: "Config", wanted: "OwnerTuple") -> str | None:
    from relay.identity.owners import Owners

    async with opened(config) as db:
        owner = await Owners(db, await owner_keys(config, db)).find(wanted)
        return None if owner is None else owner.key


@owners.command("erase")
@click.argument("owner_key")
@click.option("--why", default=None, help="The reason, for the audit log: a number of the request, nothing personal.")
@click.option("--by", default=None, metavar="NAME", help="Who does it. Left out: this account's name.")
@click.option("--dry-run", is_flag=True, help="Tell what would be done, and change nothing.")
@as_json
@click.pass_obj
def erase_owner(
    session: Session, /, owner_key: str, *, why: str | None, by: str | None, dry_run: bool, as_json: bool
) -> None:
    """Erase what OWNER_KEY has said, and who they are.

    What waits is given up, every rating and comment erased, the subject and the evidence deleted. An attempt that is
    under way is waited for, as long as its lease at the most. Stopped, it may be run again. Then it lists the
    specialists that keep copies: the relay cannot erase there.
    """
    if why is None and not dry_run:
        raise click.UsageError("say --why, for the audit log")
    config = session.load()
    done = run(erase(config, owner_key, by=f"cli:{by or account()}", why=why or "", dry_run=dry_run))
    if done is None:
        raise Failure(f"there is no owner {owner_key}", FAILED)
    if as_json:
        print_json({"ownerKey": owner_key, "dryRun": dry_run, **shown(done)})
    else:
        tell(done, dry_run=dry_run)


async def erase(config: "Config", owner_key: str, *, by: str, why: str, dry_run: bool) -> "Erasure | None":
    from relay.retention.owners import OwnerErasure
    from relay.storage import schema

    async with opened(config) as db:
        await schema.require_current(db)
        erasure = await OwnerErasure.find(db, owner_key)
        if erasure is None:
            return None
        due = await erasure.look()
        if dry_run:
            return due
        told: list[int] = []

        def waiting(left: int) -> None:
            if not told:
                click.echo(f"relay: waiting for attempts that are under way: {left}", err=True)
            told.append(left)

        with progress(due.erased) as advance:
            return await erasure.run(by, why, advance=advance, waiting=waiting)


def shown(done: "Erasure") -> dict[str, Any]:
    return {
        "erased": done.erased,
        "abandoned": done.abandoned,
        "underWay": done.under_way,
        "evidence": done.evidence,
        "subject": done.subject,
        "copies": [copies_shown(copies) for copies in done.copies],
    }


def copies_shown(copies: "Copies") -> dict[str, Any]:
    return {
        "agent": copies.agent,
        "origin": copies.origin,
        "ownerContact": copies.contact,
        "saved": copies.saved,
        "possiblyReceived": copies.possibly_received,
    }


def tell(done: "Erasure", *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    click.echo(f"submissions {would}erased: {done.erased}")
    click.echo(f"of them {would}given up undelivered: {done.abandoned} (under way: {done.under_way})")
    click.echo(f"references of evidence {would}deleted: {done.evidence}")
    click.echo(f"sealed subject {would}deleted: {'yes' if done.subject else 'none was kept'}")
    if not done.copies:
        click.echo("no specialist keeps a copy")
        return
    click.echo("copies at specialists, to be erased by their owners:")
    print_table(
        ("agent", "origin", "contact", "saved", "possibly received"),
        [(c.agent, c.origin, c.contact or "", c.saved, c.possibly_received) for c in done.copies],
    )
