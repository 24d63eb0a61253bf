"""Files that a configuration names must be there, private, and what they should be, before anything starts."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from relay.config import Config, require_files
from relay.errors import StartupError
from tests.support.configuration import AGENT, CLIENT_CREDENTIALS, MINIMAL

Load = Callable[..., Config]

WITH_FILES = (
    MINIMAL.replace('"sqlite:///relay.db"', '"postgresql://relay@db.example.org/relay"\npassword_file = "password"')
    + AGENT
    + CLIENT_CREDENTIALS
    + '[egress]\nca_file = "ca.pem"\n'
)


def write_privately(file: Path, content: bytes) -> None:
    file.parent.mkdir(exist_ok=True)
    file.touch(mode=0o600)
    file.write_bytes(content)


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """Everything that `WITH_FILES` names, in order."""
    pem = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_privately(tmp_path / "password", b"hunter2\n")
    write_privately(tmp_path / "secrets/workbench.pem", pem)
    write_privately(tmp_path / "secrets/token", b"a-static-token\n")
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
    return tmp_path


async def told(config: Config) -> list[str]:
    with pytest.raises(StartupError) as refusal:
        await require_files(config)
    return str(refusal.value).splitlines()


@pytest.mark.usefixtures("secrets")
async def test_files_that_are_in_order_let_it_start(loaded: Load):
    """The owners' keys need not be there: for an empty database they are made."""
    await require_files(loaded(WITH_FILES))


async def test_all_missing_files_are_told_at_once(loaded: Load):
    """Each line names the key and the file."""
    lines = await told(loaded(WITH_FILES))
    expected = [
        ("[database] password_file: ", "password"),
        ("[egress] ca_file: ", "ca.pem"),
        ("[[agents]] literature, credentials no. 1: ", "secrets/token"),
        ("[[agents]] literature, credentials no. 2: ", "secrets/workbench.pem"),
    ]
    assert len(lines) == len(expected)
    for line, (key, file) in zip(lines, expected, strict=True):
        assert line.startswith(key)
        assert f"/{file} cannot be" in line


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("ca.pem", b"nonsense", "[egress] ca_file"),
        ("secrets/token", b"two words", "holds no bearer token"),
        ("secrets/workbench.pem", b"nonsense", "holds no private key in PEM"),
        ("password", b"", "[database] password_file"),
    ],
)
async def test_files_that_hold_something_else_are_refused(
    loaded: Load, secrets: Path, file: str, content: bytes, why: str
):
    """A wrong file would otherwise only show in failed attempts; the message repeats nothing of it."""
    (secrets / file).write_bytes(content)
    [line] = await told(loaded(WITH_FILES))
    assert why in line
    assert not content or content.decode() not in line


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize(
    ("key", "file", "content", "why"),
    [
        ("key_file", "secrets/none", b"", "cannot be read"),
        ("key_file", "console.pem", b"nonsense", "holds no private key in PEM"),
        ("client_secret_file", "console-secret", b"\x00", "holds no client secret"),
    ],
)
async def test_the_consoles_secret_is_looked_at(
    loaded: Load, tmp_path: Path, key: str, file: str, content: bytes, why: str
):
    """Nobody is to find out by a sign-in that fails."""
    if content:
        write_privately(tmp_path / file, content)
    section = '[console]\nissuer = "https://login.example.org"\nclient_id = "console"\n'
    [line] = await told(loaded(f'{WITH_FILES}{section}{key} = "{file}"\n'))
    assert line.startswith(f"[console] {key}: ")
    assert why in line


async def test_a_secret_that_others_can_read_is_refused(loaded: Load, secrets: Path):
    """The message says what to run."""
    (secrets / "secrets/token").chmod(0o644)
    [line] = await told(loaded(WITH_FILES))
    assert "chmod 600" in line


async def test_the_environments_password_makes_the_file_unnecessary(loaded: Load, secrets: Path):
    """What goes before the file stands in for it."""
    (secrets / "password").unlink()
    await require_files(loaded(WITH_FILES, RELAY_DATABASE_PASSWORD="hunter2"))
