"""Install what a checkout's requirements name into an environment of their own. The watcher runs this as the cell, with
the keep's code; it prints one line (`result`). A half-made environment is never used, because the marker comes last and
is on the disk after all else; it is removed here, by the next install or by `tidy`."""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import sys
import time
import venv

from infra.keep.environments import pip, store
from infra.keep.environments.pip import PipFailed, PipLimits
from infra.keep.environments.request import InstallRequest, from_words
from infra.keep.environments.requirements import BadRequirements, Requirements, fingerprint, this_runtime, understand
from infra.keep.environments.result import Failed, Installed, InstallResult, clean, to_line
from infra.shared.files import sync_directory, write_whole
from infra.shared.safe_files import Below

REQUIREMENTS = "requirements.txt"
"""In an environment: what pip was given."""
FRESH = ".fresh"
"""In an unfinished environment: what was fetched for it; also pip's log and temporary files."""


def main(argv: list[str]) -> int:
    signal.signal(signal.SIGTERM, _leave)
    result = install(from_words(argv), dict(os.environ), time.monotonic())
    print(to_line(result))
    return 0 if isinstance(result, Installed) else 1


def install(request: InstallRequest, environ: dict[str, str], began: float) -> InstallResult:
    """Every failure is a result; after it there is a whole environment or nothing new."""
    bot = Below(request.bot)
    try:
        source, content = store.read_requirements(bot, request.checkout)
        if content is None:
            return Failed(f"{request.checkout} has no requirements file; there is nothing to install", "", outage=False)
        interpreter = _installed(request, bot, understand(content, source), environ, began + request.seconds)
    except BadRequirements as error:
        return Failed(str(error), "", outage=False)
    except PipFailed as error:
        why = "the network or this machine" if error.outage else "what they name"
        text = f"the requirements could not be installed, because of {why}: {error}"
        return Failed(clean(text), clean(error.output), error.outage)
    except OSError as error:
        return Failed(f"the environment cannot be made: {error}", "", outage=True)
    return Installed(interpreter, round(time.monotonic() - began, 3))


def _installed(request: InstallRequest, bot: Below, wanted: Requirements, environ: dict[str, str], until: float) -> str:
    """The interpreter of the environment. Raises PipFailed and OSError."""
    for directory in (os.path.dirname(request.wheels), request.wheels, request.environments):
        bot.make_directory(directory, 0o700)
    wanted_hash = fingerprint(wanted, this_runtime())
    with store.alone_in(request.environments, until):
        whole = store.whole_ones(bot, request.environments)
        if found := store.paths_of(wanted_hash, whole):
            return store.interpreter_in(found[0])
        for path in set(store.entries(bot, request.environments)) - whole.keys():
            store.remove(bot, path)
        if pip.is_short_of_space(request.environments, request.free_bytes):
            raise OSError(f"fewer than {request.free_bytes} bytes are free in {request.environments}; make room")
        path = f"{request.environments}/{wanted_hash[:16]}-{secrets.token_hex(4)}"
        try:
            _make(
                path, request.wheels, wanted, environ, PipLimits(until, request.environments, request.free_bytes // 2)
            )
            write_whole(f"{path}/{store.MARKER}", f"{wanted_hash}\n".encode())
            sync_directory(request.environments)
        except BaseException:
            store.remove(bot, path)
            raise
    return store.interpreter_in(path)


def _make(path: str, wheels: str, wanted: Requirements, environ: dict[str, str], limits: PipLimits) -> None:
    """All of an environment but its marker, on the disk. Raises PipFailed and OSError.

    With hashes there is one right wheel for each package, so what was fetched once is as good as the index. Without,
    the index is asked first, and what was fetched earlier serves when that is out of reach."""
    # No packages of the keep's, and no pip: only what is named.
    venv.EnvBuilder(symlinks=True, with_pip=False).create(path)
    fresh, requirements = f"{path}/{FRESH}", f"{path}/{REQUIREMENTS}"
    os.mkdir(fresh)
    write_whole(requirements, wanted.text.encode())

    def install_from(directory: str) -> None:
        words = pip.install_words(requirements, wanted.hashed, directory, store.interpreter_in(path))
        pip.run(words, environ | {"TMPDIR": fresh}, fresh, limits)

    def fetch() -> None:
        words = pip.download_words(requirements, wanted.hashed, fresh, environ.get("PIP_INDEX_URL", ""))
        pip.run(words, environ | {"TMPDIR": fresh}, fresh, limits)

    kept = _wheels_in(wheels)
    have_all = wanted.packages <= {name.partition("-")[0].lower() for name in kept}
    if wanted.hashed:
        try:
            if not have_all:
                raise PipFailed("not every wheel was kept", "", outage=False)
            install_from(wheels)
        except PipFailed as error:
            if error.outage:
                raise
            for name in kept:  # pip checks the hash of each that it needs, and fetches one that does not match
                os.link(f"{wheels}/{name}", f"{fresh}/{name}", follow_symlinks=False)
            fetch()
            install_from(fresh)
    else:
        try:
            fetch()
            install_from(fresh)
        except PipFailed as error:
            if not error.outage or not have_all:
                raise
            install_from(wheels)
    _sync_disk(path)
    for name in _wheels_in(fresh):
        os.replace(f"{fresh}/{name}", f"{wheels}/{name}")
    Below(path).remove(FRESH)


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
    """Once: unwinding then ends pip and removes what is half made."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
