"""The commands, their exit codes, and what they print where."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import psycopg
import pytest
from click.testing import CliRunner, Result

from relay import __version__
from relay.cli import main
from relay.web import load
from tests.support.configuration import AGENT, MINIMAL

Relay = Callable[..., Result]


def commands(group: click.Group = main, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def run_apart(config_file: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: serving takes over signals and logging."""
    return subprocess.run(
        [sys.executable, "-m", "relay", "--config", str(config_file), *command],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("path", [path for path, _ in commands()], ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...]):
    """Each command and each of its options has a sentence in its help."""
    result = CliRunner().invoke(main, [*path, "--help"], prog_name="relay")
    assert result.exit_code == 0
    command = dict(commands())[path]
    assert command.help
    assert all(option.help for option in command.params if isinstance(option, click.Option))


def test_the_commands_of_the_operators_interface_are_there():
    """These names stand in units, scripts and runbooks."""
    assert {" ".join(path) for path, _ in commands()} == {
        "serve",
        "work",
        "migrate",
        "check-config",
        "openapi",
        "demo",
        "version",
        "widget",
        "agents",
        "agents list",
        "agents show",
        "agents propose",
        "agents withdraw",
        "agents approve",
        "agents revoke",
        "agents hold",
        "agents resume",
        "agents same-specialist",
        "keys",
        "keys show",
        "keys new",
        "keys rotate",
        "operators",
        "operators login",
        "operators logout",
        "operators submissions",
        "operators submissions list",
        "operators submissions show",
        "operators submissions retry",
        "operators submissions reopen",
        "operators submissions abandon",
        "operators submissions bulk-retry",
        "operators submissions bulk-abandon",
        "operators jobs",
        "operators jobs list",
        "operators jobs show",
        "operators jobs follow",
        "operators jobs cancel",
        "operators agents",
        "operators agents list",
        "operators agents show",
        "operators agents propose",
        "operators agents approve",
        "operators agents withdraw",
        "operators agents revoke",
        "operators agents same-specialist",
        "operators agents hold",
        "operators agents resume",
        "operators tasks",
        "operators tasks contested",
        "operators tasks long-running",
        "operators audit",
        "operators audit list",
        "operators analytics",
        "operators export",
        "operators watch",
        "owners",
        "owners find",
        "owners erase",
        "retention",
        "retention show",
        "retention sweep",
    }


def test_help_imports_nothing_heavy():
    """Help answers at once: servers and drivers are imported by the commands that need them."""
    code = (
        "import sys, relay.cli\n"
        "print([name for name in ('aiohttp', 'sqlalchemy', 'authlib', 'alembic', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_module_is_the_program(config_file: Path):
    """``python -m relay`` is the same program as ``relay``."""
    done = run_apart(config_file, "check-config")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{config_file} is in order: sqlite, issuers: 1, agents: 0, of which take feedback: 0\n"


def test_the_configuration_may_come_from_the_environment(config_file: Path):
    """Units and images set RELAY_CONFIG once; the option goes before it."""
    runner = CliRunner(env={"RELAY_CONFIG": str(config_file)})
    assert runner.invoke(main, ["check-config"], prog_name="relay").exit_code == 0
    other = ["--config", f"{config_file}.absent", "check-config"]
    assert "absent: cannot be read" in runner.invoke(main, other, prog_name="relay").stderr


def test_the_version_is_the_packages(relay: Relay):
    """What a bug report should say."""
    assert relay("version").stdout == f"{__version__}\n"


def test_no_configuration_is_a_configuration_error():
    """Exit code 2, and what to do about it."""
    result = CliRunner().invoke(main, ["check-config"], env={"RELAY_CONFIG": ""})
    assert result.exit_code == 2
    assert "say --config FILE before the command, or set RELAY_CONFIG" in result.stderr


@pytest.mark.parametrize("command", ["serve", "work", "migrate", "check-config"])
def test_a_wrong_configuration_stops_every_command(relay: Relay, config_file: Path, command: str):
    """Exit code 2, one line for each problem, on stderr, and no traceback."""
    config_file.write_text(MINIMAL + "[delivery]\nlease_seconds = 8\n", encoding="utf-8")
    result = relay(command)
    assert result.exit_code == 2
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith(f"relay: {config_file}:")
    assert "[delivery] lease_seconds = 8: must exceed [delivery] deadline_seconds (10) by at least 5" in line


@pytest.mark.parametrize("command", ["serve", "work", "check-config"])
def test_a_missing_secret_is_wrong_surroundings(relay: Relay, config_file: Path, command: str):
    """The file is right, what it names is not there: exit code 3."""
    config_file.write_text(MINIMAL + AGENT, encoding="utf-8")
    result = relay(command)
    assert result.exit_code == 3
    assert "relay: [[agents]] literature, credentials no. 1: " in result.stderr


def test_migrate_shows_before_it_changes(relay: Relay, tmp_path: Path):
    """--show tells what is to be done and does not do it; migrate does it; after that nothing is left."""
    shown = relay("migrate", "--show")
    assert shown.exit_code == 0
    assert "the database is at: nothing (it is empty)" in shown.stdout
    assert "to be applied: 0001" in shown.stdout
    again = relay("migrate", "--show")
    assert again.stdout == shown.stdout

    done = relay("migrate")
    assert done.exit_code == 0
    assert done.stdout.startswith("migrated to: ")
    assert "to be applied" not in relay("migrate", "--show").stdout
    assert (tmp_path / "relay.db").exists()


def test_a_database_that_cannot_be_reached_is_wrong_surroundings(relay: Relay, config_file: Path, tmp_path: Path):
    """Exit code 3 and one line; no traceback, no password."""
    url = f"postgresql:///relay?host={tmp_path}"
    config_file.write_text(MINIMAL.replace("sqlite:///relay.db", url), encoding="utf-8")
    result = relay("migrate")
    assert result.exit_code == 3
    [line] = result.stderr.splitlines()
    assert line.startswith("relay: the database cannot be used: ")


def test_what_the_server_says_is_told_without_the_password(config_file: Path, postgres_url: str):
    """A database that is not there is told in the server's own words; the password appears nowhere."""
    with psycopg.connect(postgres_url) as connection:
        host, port = connection.info.host, connection.info.port
    url = f"postgresql://postgres@/absent?host={host}&port={port}"
    config_file.write_text(MINIMAL.replace("sqlite:///relay.db", url), encoding="utf-8")
    result = CliRunner(env={"RELAY_DATABASE_PASSWORD": "hunter2"}).invoke(
        main, ["--config", str(config_file), "migrate"], prog_name="relay"
    )
    assert result.exit_code == 3
    assert "absent" in result.stderr
    assert "hunter2" not in result.output


def test_an_address_in_use_is_wrong_surroundings(config_file: Path):
    """Exit code 3 and one line that names the address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = MINIMAL.replace("https://login.example.org", "http://127.0.0.1:1").replace(
            "[server]", f"[server]\ndevelopment = true\nport = {port}"
        )
        config_file.write_text(text, encoding="utf-8")
        done = run_apart(config_file, "serve")
    assert done.returncode == 3
    assert f"('127.0.0.1', {port})" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["serve", "work"])
def test_serving_without_its_database_is_wrong_surroundings(config_file: Path, tmp_path: Path, command: str):
    """A supervisor may try again; an operator reads one line."""
    url = f"postgresql:///relay?host={tmp_path}"
    config_file.write_text(MINIMAL.replace("sqlite:///relay.db", url), encoding="utf-8")
    done = run_apart(config_file, command)
    assert done.returncode == 3
    assert "relay: the database cannot be used: " in done.stderr
    assert "Traceback" not in done.stderr


def test_the_openapi_document_needs_no_configuration():
    """It is the program's, not a deployment's."""
    result = CliRunner().invoke(main, ["openapi"], prog_name="relay")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["openapi"].startswith("3.1")
    assert "/api/feedback" in document["paths"]


def test_widget_prints_the_element_for_this_version(relay: Relay):
    """With the public address of the configuration, or another; path and hash are the module's."""
    printed = relay("widget").output
    assert printed.strip() == load().element("https://relay.example.org")
    assert (
        f'src="https://feedback.example.net{load().path}"'
        in relay("widget", "--url", "https://feedback.example.net/").output
    )
