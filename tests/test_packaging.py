"""What leaves the checkout: the wheel, the sources, the image and the units."""

import base64
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.credentials.authorizations import static_token
from registry.credentials.secret_files import SecretFiles
from relay.identity import keyfiles
from tests.support.configuration import MINIMAL

ROOT = Path(__file__).parent.parent
PACKAGES = ("relay", "registry", "migrations")
SOMEBODY = 65534
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))


def sources() -> set[str]:
    """Every file of the packages that belongs to them, as it stands in the checkout."""
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*") if file.is_file())
    return {str(file.relative_to(ROOT)) for file in files if "__pycache__" not in file.parts}


def build(target: str, into: Path) -> Path:
    """Without a network and without isolation: hatchling is one of the development tools."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)
    [built] = into.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked by pip into a directory of its own; what it depends on is this environment's."""
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(target)]
    subprocess.run([*command, str(wheel)], check=True, capture_output=True, timeout=60)
    return target


def run_installed(installed: Path, where: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Away from the checkout, so that nothing is imported from it by accident."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=where,
        env={"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path):
    """Migrations, their template and the typing markers are files that only a forgotten wheel misses."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == sources()
    assert {"relay/py.typed", "registry/py.typed", "migrations/env.py"} <= names
    assert any(re.fullmatch(r"migrations/versions/0001_\w+\.py", name) for name in names)


def test_the_source_archive_is_enough_to_build_and_test(tmp_path: Path):
    """Whoever gets the sources gets the tests, the example and the pins with them."""
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert sources() <= names
    assert {"pyproject.toml", "README.md", "constraints.txt", "config.example.toml", "Makefile"} <= names
    assert "tests/test_packaging.py" in names


def test_the_installed_wheel_migrates_a_database(installed: Path, tmp_path: Path):
    """The packages are the wheel's own, and its migrations make the schema that the program then calls current."""
    where = "import migrations, registry, relay; print(migrations.__file__, registry.__file__, relay.__file__)"
    files = run_installed(installed, tmp_path, "-c", where).stdout.split()
    assert [file.startswith(str(installed)) for file in files] == [True, True, True]

    config = tmp_path / "relay.toml"
    config.write_text(MINIMAL, encoding="utf-8")
    done = run_installed(installed, tmp_path, "-m", "relay", "--config", str(config), "migrate")
    assert (done.returncode, done.stderr) == (0, "")

    shown = run_installed(installed, tmp_path, "-m", "relay", "--config", str(config), "migrate", "--show")
    assert "to be applied" not in shown.stdout
    connection = sqlite3.connect(tmp_path / "relay.db")
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    assert {"alembic_version", "submissions", "deliveries", "events"} <= tables


def test_the_installed_command_runs(installed: Path, tmp_path: Path):
    """The entry point that pip makes a command of."""
    done = run_installed(installed, tmp_path, str(installed / "bin/relay"), "version")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", done.stdout)


def test_the_image_is_built_from_named_sources_only():
    """A ``COPY .`` would take secrets and databases of the checkout along; what is named must be there."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    copied = [word for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for word in line.split()]
    assert set(copied) == {"pyproject.toml", "constraints.txt", "README.md", *PACKAGES}
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_does_not_run_as_root():
    """The last user counts, as a number, which an orchestrator can hold against its policy."""
    users = re.findall(r"^USER (\S+)$", (ROOT / "Containerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert users == ["10001:10001"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_stop_slower_than_the_grace(unit: Path):
    """A unit is not killed while it still has time to give its claims back: the grace is 30 s."""
    text = unit.read_text(encoding="utf-8")
    [timeout] = re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
    assert int(timeout) > 30 + 10
    assert "KillSignal=SIGTERM" in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_accepts_the_units(unit: Path, tmp_path: Path):
    """No unknown key, no unit that systemd would not load, and little left to expose."""
    text = unit.read_text(encoding="utf-8").replace("/opt/feedback-relay/bin/relay", shutil.which("true") or "")
    copy = tmp_path / unit.name
    copy.write_text(text, encoding="utf-8")
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    review = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", "--no-pager", str(copy)]
    assert subprocess.run(review, capture_output=True, text=True, check=False, timeout=60).returncode == 0


@pytest.fixture
def handed_over() -> Iterator[Path]:
    """A directory of root's secrets that somebody else reads through their group, while this process is that one."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        (directory / "pepper").write_bytes(base64.urlsafe_b64encode(bytes(32)))
        (directory / "token").write_bytes(b"a-static-token")
        for file in directory.iterdir():
            file.chmod(0o440)
            os.chown(file, 0, SOMEBODY)
        os.setegid(SOMEBODY)
        os.seteuid(SOMEBODY)
        try:
            yield directory
        finally:
            os.seteuid(0)
            os.setegid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_secrets_are_accepted_as_systemd_hands_them_over(handed_over: Path):
    """The owners' keys and the agents' credentials alike."""
    assert keyfiles.read("pepper", handed_over / "pepper").secret == bytes(32)
    assert await SecretFiles(static_token).get(str(handed_over / "token")) == "a-static-token"


def test_both_units_are_there():
    """The parametrized tests above would say nothing about no units at all."""
    assert [unit.name for unit in UNITS] == ["feedback-relay-gateway.service", "feedback-relay-worker.service"]
