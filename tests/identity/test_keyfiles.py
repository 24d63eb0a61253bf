"""Key files: made once and privately, read only while private, and never guessed at."""

import os
import stat
import threading
from pathlib import Path

import pytest

from relay.errors import StartupError
from relay.identity import keyfiles
from relay.identity.keyfiles import SecretKey

VALID = "A" * 43 + "\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "secrets" / "pepper"


def test_a_new_file_is_private_and_read_back(path: Path) -> None:
    """Mode 0600 whatever the umask, in a directory that nobody else enters, and nothing is left beside it."""
    before = os.umask(0)
    try:
        keyfiles.make("pepper", path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]
    assert len(keyfiles.read("pepper", path).secret) == 32


def test_a_file_that_is_there_stays(path: Path) -> None:
    """Making never writes over a key."""
    keyfiles.make("pepper", path)
    first = path.read_bytes()
    keyfiles.make("pepper", path)
    assert path.read_bytes() == first


def test_of_many_who_make_it_at_once_one_does(path: Path) -> None:
    """Processes that start together read one and the same whole key."""
    found: list[SecretKey] = []
    barrier = threading.Barrier(8)

    def start() -> None:
        barrier.wait()
        keyfiles.make("pepper", path)
        found.append(keyfiles.read("pepper", path))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({key.secret for key in found}) == 1
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_file_that_others_can_read(mode: int, path: Path) -> None:
    """A secret that is not one any more stops the start, with the command that mends it."""
    keyfiles.make("pepper", path)
    path.chmod(mode)
    with pytest.raises(StartupError, match=rf"pepper_file: .*mode {mode:04o}.*chmod 600 {path}"):
        keyfiles.read("pepper", path)


def test_a_file_that_is_missing(path: Path) -> None:
    """The message names the key of the configuration and the file, and says what to do."""
    with pytest.raises(StartupError, match=rf"\[owners\] pepper_file: {path} is missing.*restore it"):
        keyfiles.read("pepper", path)


@pytest.mark.parametrize(
    "content",
    ["", "\n", "A" * 42, VALID * 2, "A" * 44, "!" * 43, "é" * 43, "A" * 10_000, "AAAA" * 10 + "A+/"],
    ids=lambda content: content[:8],
)
def test_a_file_that_holds_no_key(content: str, path: Path) -> None:
    """Cut off, doubled, or something else: never used as it is, and never quoted."""
    path.parent.mkdir()
    path.touch(mode=0o600)
    path.write_text(content)
    with pytest.raises(StartupError, match="does not hold a key") as caught:
        keyfiles.read("sealing_key", path)
    assert len(content) < 8 or content.strip() not in str(caught.value)


@pytest.mark.parametrize("content", [VALID, VALID.strip(), f"  {VALID}\r\n", "A" * 43 + "=\n"])
def test_white_space_and_padding_do_not_matter(content: str, path: Path) -> None:
    """A key survives a secret store and an editor."""
    path.parent.mkdir()
    path.touch(mode=0o600)
    path.write_text(content)
    assert keyfiles.read("pepper", path).secret == bytes(32)


def test_what_is_not_a_file(tmp_path: Path) -> None:
    """A directory, and a pipe that would block for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    with pytest.raises(StartupError, match="is not a file"):
        keyfiles.read("pepper", pipe)
    with pytest.raises(StartupError, match="pepper_file"):
        keyfiles.read("pepper", tmp_path)


def test_a_place_where_nothing_can_be_made(tmp_path: Path) -> None:
    """A path through a file is an error of the operator's, said in their words."""
    (tmp_path / "file").touch()
    with pytest.raises(StartupError, match=r"\[owners\] pepper_file: .* cannot be made: "):
        keyfiles.make("pepper", tmp_path / "file" / "pepper")


def test_ids_and_check_values_tell_keys_apart() -> None:
    """Both depend on the key and on what it is for, neither shows it, and the repr does not either."""
    keys = [SecretKey(name, bytes([n]) * 32) for name in ("pepper", "sealing_key") for n in (1, 2)]
    assert len({key.kid for key in keys}) == len({key.check_value for key in keys}) == 4
    assert all(len(key.kid) == 8 and len(key.check_value) == 64 for key in keys)
    assert "x01" not in repr(keys[0])


def test_ids_and_check_values_stay_the_same() -> None:
    """They stand in databases: a change here would lock every deployment out."""
    key = SecretKey("pepper", bytes(range(32)))
    assert (key.kid, key.check_value) == (
        "8e785553",
        "f29971193f97c48c919cd1b03174eeaec81039c610c40d47bf663f9d9d12865a",
    )
