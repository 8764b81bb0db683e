"""Install what a checkout's requirements name into an environment of their own. Run by the watcher as the cell, with
the keep's code; says one line (`answer`). What is half made is never used, because the marker comes last and is on the
disk after all else; it is removed here, by the next install or by `tidy`."""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import sys
import time
import venv
from collections.abc import Callable

from infra.keep.environments import bounded_pip, order, shelf
from infra.keep.environments.answer import Answer, Failed, Installed, clean, say
from infra.keep.environments.bounded_pip import Bounds, PipFailed
from infra.keep.environments.choose import Existing
from infra.keep.environments.order import Order
from infra.keep.environments.removal import alone_in, remove, unfinished
from infra.keep.environments.requirements import BadRequirements, Requirements, fingerprint, this_runtime, understand
from infra.shared.files import sync_directory, write_whole
from infra.shared.safe_files import Below

REQUIREMENTS = "requirements.txt"
"""In an environment: what pip was given."""
FRESH = ".fresh"
"""In an unfinished environment: what was fetched for it; also pip's log and temporary files."""


def main(argv: list[str]) -> int:
    signal.signal(signal.SIGTERM, _leave)
    answer = install(order.from_words(argv), dict(os.environ), time.monotonic())
    print(say(answer))
    return 0 if isinstance(answer, Installed) else 1


def install(asked: Order, environ: dict[str, str], began: float) -> Answer:
    """Whatever goes wrong is an answer; after it there is a whole environment or nothing new."""
    try:
        source, content = shelf.read_requirements(asked.checkout)
        if content is None:
            return Failed(f"{asked.checkout} has no requirements file; there is nothing to install", "", outage=False)
        wanted = understand(content, source)
        interpreter = _installed(asked, wanted, environ, began + asked.seconds)
    except BadRequirements as error:
        return Failed(str(error), "", outage=False)
    except PipFailed as error:
        why = "the network or this machine" if error.outage else "what they name"
        text = f"the requirements could not be installed, because of {why}: {error}"
        return Failed(clean(text), clean(error.output), error.outage)
    except OSError as error:
        return Failed(f"the environment cannot be made: {error}", "", outage=True)
    return Installed(interpreter, round(time.monotonic() - began, 3))


def _installed(asked: Order, wanted: Requirements, environ: dict[str, str], until: float) -> str:
    """The interpreter of the environment. Raises PipFailed and OSError."""
    for directory in (os.path.dirname(asked.wheels), asked.wheels, asked.environments):
        Below(os.path.dirname(directory)).make_directory(directory)
        os.chmod(directory, 0o700)
    wanted_hash = fingerprint(wanted, this_runtime())
    with alone_in(asked.environments, until):
        for path, found in sorted(shelf.whole_ones(asked.environments).items()):
            if found == wanted_hash:
                return shelf.interpreter_of(Existing(path))
        for path in unfinished(asked.environments):
            remove(path)
        if bounded_pip.is_short_of_space(asked.environments, asked.free_bytes):
            raise OSError(f"less than {asked.free_bytes} bytes are free in {asked.environments}; make room")
        path = f"{asked.environments}/{wanted_hash[:16]}-{secrets.token_hex(4)}"
        try:
            _make(path, asked.wheels, wanted, environ, Bounds(until, asked.environments, asked.free_bytes // 2))
            write_whole(f"{path}/{shelf.MARKER}", f"{wanted_hash}\n".encode())
            sync_directory(asked.environments)
        except BaseException:
            remove(path)
            raise
    return shelf.interpreter_of(Existing(path))


def _make(path: str, wheels: str, wanted: Requirements, environ: dict[str, str], bounds: Bounds) -> None:
    """All of an environment but its marker, and all of it on the disk."""
    # No packages of the keep's, and no pip: only what is named.
    venv.EnvBuilder(symlinks=True, with_pip=False).create(path)
    fresh = f"{path}/{FRESH}"
    os.mkdir(fresh)
    requirements = f"{path}/{REQUIREMENTS}"
    write_whole(requirements, wanted.text.encode())
    interpreter = shelf.interpreter_of(Existing(path))

    def pip(words: list[str]) -> None:
        bounded_pip.run(words, environ | {"TMPDIR": fresh}, fresh, bounds)

    _fill(pip, requirements, wanted, interpreter, wheels, fresh)
    _sync_disk(path)
    for name in _wheels_in(fresh):
        os.replace(f"{fresh}/{name}", f"{wheels}/{name}")
    remove(fresh)


def _fill(
    pip: Callable[[list[str]], None],
    requirements: str,
    wanted: Requirements,
    interpreter: str,
    wheels: str,
    fresh: str,
) -> None:
    """Fetch, then install from what was fetched. Raises PipFailed and OSError.

    With hashes there is one right wheel for each package, so what was fetched once is as good as the index; without,
    the index is asked first, and what was fetched earlier serves when that is out of reach."""
    from_kept = bounded_pip.install_words(requirements, wanted.hashed, wheels, interpreter)
    kept = _wheels_in(wheels)
    have_all = wanted.packages <= {name.partition("-")[0].lower() for name in kept}
    if wanted.hashed and have_all:
        try:
            return pip(from_kept)
        except PipFailed as error:
            if error.outage:
                raise
    if wanted.hashed:  # pip looks at the hash of each that it needs, and fetches one that is not as it should be
        for name in kept:
            os.link(f"{wheels}/{name}", f"{fresh}/{name}", follow_symlinks=False)
    try:
        pip(bounded_pip.download_words(requirements, wanted.hashed, fresh))
    except PipFailed as error:
        if not error.outage or wanted.hashed or not have_all:
            raise
        return pip(from_kept)
    return pip(bounded_pip.install_words(requirements, wanted.hashed, fresh, interpreter))


def _wheels_in(directory: str) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries if entry.name.endswith(".whl") and entry.is_file(follow_symlinks=False)]


def _sync_disk(path: str) -> None:
    """Everything on the disk that `path` lies on (syncfs(2)): file by file it would be thousands of waits."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if libc.syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), f"syncfs of {path} failed")
    finally:
        os.close(descriptor)


def _leave(number: int, _frame: object) -> None:
    """Once: what is unwound then ends pip and removes what is half made."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
