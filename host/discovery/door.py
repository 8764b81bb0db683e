"""A model door of discovery's own, for one run: started, asked whether it is well, ended.

Key, ledger, budget and socket are not those of any agent. The key is in a file that only this user can read, for as
long as the run lasts. One run at a time uses the ledger: two doors would each grant what is left of the day."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from host.context import Context
from host.errors import conflict, failure, usage
from host.paths import DiscoveryPaths, secure_directory
from host.running.start import keep_environment
from infra.shared import arguments
from infra.shared.conversation import HEALTH_PATH
from infra.shared.files import write_whole
from infra.shared.model_settings import choices, keys_needed, model_words
from infra.shared.paths import Paths
from infra.shared.plain_yaml import parse_yaml
from infra.shared.providers import KEYS, MANUAL, SCRIPTED, variable_of
from infra.shared.settings import Settings
from infra.shared.settings_file import parse_settings
from infra.shared.sockets import connect

SECTIONS = ("model", "budget")
READY_SECONDS, END_SECONDS, ASK_SECONDS = 30.0, 10.0, 5.0
POLL_SECONDS = 0.05
LOG_BYTES = 1 << 16


class DoorSettings(NamedTuple):
    """What a door is started with."""

    raw: dict[str, Any]
    """As in the file, with what the command says."""
    settings: Settings
    keys: Mapping[str, str]
    """By name, those that its models need."""

    @property
    def words(self) -> str:
        """The model, for people."""
        return model_words(self.settings.model, list(self.keys))


def variable(key: str) -> str:
    """Where the key comes from; never an agent's variable."""
    return f"DISCOVERY_{variable_of(key)}"


def read(path: str, environ: Mapping[str, str], usd: float | None) -> DoorSettings:
    """The settings; `usd` instead of `budget.unit_usd`. No file means all defaults. Raises CommandError and
    SettingsError."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        text = ""
    settings = parse_settings(text, path)
    raw = parse_yaml(text) or {}
    others = [key for key in raw if key not in SECTIONS]
    if others:
        raise usage(f"{path}: {', '.join(others)}: discovery knows {' and '.join(SECTIONS)} alone; remove the rest")
    given = {key: environ.get(variable(key), "").strip() for key in KEYS}
    there = [key for key in KEYS if given[key]]
    _check_model(path, settings, there)
    model, budget = (dict(raw.get(key) or {}) for key in SECTIONS)
    if script := settings.model.script:  # the copy of the settings lies elsewhere
        model["script"] = os.path.join(os.path.dirname(os.path.abspath(path)), script)
    if usd is not None:
        budget["unit_usd"] = usd
    raw = {"model": model, "budget": budget}
    return DoorSettings(
        raw,
        parse_settings(json.dumps(raw), path),
        {key: _checked(key, given[key]) for key in keys_needed(settings.model, there)},
    )


def _check_model(path: str, settings: Settings, there: list[str]) -> None:
    first = choices(settings.model, there)[0]
    keys = " or ".join(variable(key) for key in KEYS)
    if first.provider == SCRIPTED and not settings.model.script:
        raise usage(f"no model: export {keys}, or name one under 'model:' in {path}; --manual explores by hand")
    if MANUAL in (choice.provider for choice in choices(settings.model, there)):
        raise usage(f"{path}: model.provider is {MANUAL}; to explore by hand use --manual")


def _checked(key: str, value: str) -> str:
    """Raises CommandError; its text never holds the key."""
    if not value:
        raise usage(f"{variable(key)} is not set, and the model needs it: export your key in it, or use another model")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise usage(f"{variable(key)} holds spaces, control characters or non-ASCII; expected the bare key")
    return value


@contextlib.contextmanager
def opened(context: Context, places: DiscoveryPaths, run: str, given: DoorSettings) -> Iterator[str]:
    """The socket of a door that is well; `run` is the unit of work of all its calls. It ends with the body, and with
    this process however that ends. Raises CommandError."""
    secure_directory(places.state, context.uid)
    secure_directory(places.run, context.uid)
    here = Paths(bot=f"{places.run}/none", remote=f"{places.run}/none", run=f"{places.run}/{run}", var=places.state)
    with _alone(f"{places.state}/door.lock") as lock, _own_directory(places.run, here.run, context.uid):
        try:
            settings = f"{here.run}/discovery.yaml"
            write_whole(settings, json.dumps(given.raw).encode(), mode=0o600)
            if given.keys:
                secure_directory(here.secrets, context.uid)
            for name, key in given.keys.items():
                write_whole(f"{here.secrets}/{name}", f"{key}\n".encode(), mode=0o600)
            process = _spawn(context, here, settings, run, lock)
            try:
                _wait_until_well(process, here)
                yield here.model_socket
            finally:
                _end(process)
        finally:
            shutil.rmtree(here.run, ignore_errors=True)


@contextlib.contextmanager
def _own_directory(above: str, path: str, uid: int) -> Iterator[None]:
    """A new directory that is locked while the body lasts. One that nobody has locked is of a run that was killed: it
    goes, and the key that may lie in it."""
    with contextlib.ExitStack() as held:
        with contextlib.closing(_Directory(above)) as base:
            fcntl.flock(base.descriptor, fcntl.LOCK_EX)
            for name in os.listdir(above):
                with contextlib.suppress(OSError), contextlib.closing(_Directory(f"{above}/{name}")) as other:
                    fcntl.flock(other.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(f"{above}/{name}", ignore_errors=True)
            secure_directory(path, uid)
            own = held.enter_context(contextlib.closing(_Directory(path)))
            fcntl.flock(own.descriptor, fcntl.LOCK_EX)
        yield


class _Directory:
    """One that is open, so that it can be locked."""

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self.descriptor)


@contextlib.contextmanager
def _alone(path: str) -> Iterator[int]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock
    except BlockingIOError:
        raise conflict(
            "another run uses discovery's model door, and one at a time does; wait for its end, or explore by hand "
            "with --manual"
        ) from None
    finally:
        os.close(lock)


def _spawn(context: Context, here: Paths, settings: str, run: str, lock: int) -> subprocess.Popen[bytes]:
    door = (sys.executable, "-s", "-P", "-m", "infra.model_door", *arguments.words(settings, here), f"--unit={run}")
    log = os.open(_log(here), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        return subprocess.Popen(
            # setpriv(1): it must not outlive this process. Until it has ended nobody else gets the lock.
            ["setpriv", "--pdeathsig", "TERM", *door],
            cwd="/",
            env=keep_environment(context.environ, context.root),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(lock,),
        )
    finally:
        os.close(log)


def _wait_until_well(process: subprocess.Popen[bytes], here: Paths) -> None:
    """Raises CommandError."""
    deadline = time.monotonic() + READY_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if problem := _problem(here.model_socket):
                raise failure(f"the model cannot be used: {problem}")
            return
        time.sleep(POLL_SECONDS)
    raise failure(f"the model door did not open: {_last_reason(here)}; its log is {_log(here)}")


def _problem(socket: str) -> str:
    """What the door says is wrong with its model; empty for nothing. Raises OSError while it does not listen."""
    connection = http.client.HTTPConnection("model-door")
    connection.sock = connect(socket, ASK_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", HEALTH_PATH)
        answer = json.loads(connection.getresponse().read())
    return str(answer.get("problem") or "")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _log(here: Paths) -> str:
    return f"{here.var}/door.log"


def _last_reason(here: Paths) -> str:
    try:
        with open(_log(here), "rb") as file:
            file.seek(max(0, os.path.getsize(_log(here)) - LOG_BYTES))
            line = file.read().splitlines()[-1]
    except (OSError, IndexError):
        return "it said nothing"
    try:
        return str(json.loads(line)["reason"])
    except (ValueError, LookupError, TypeError):
        return line.decode(errors="replace")
