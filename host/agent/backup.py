"""`minifram backup`: one agent as one file, which `restore` reads.

A backup holds the parts named here and nothing else, so neither the key nor a socket nor a log can get in. The
watcher's memory stays out, too: its pids and signals belong to one machine, and COMMS.md says what failed."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import tempfile
import time
import tomllib
from collections.abc import Iterator
from typing import Literal, NamedTuple

from host.agent import up as running
from host.agent.archive import BLOCK, BOUNDS, BUNDLE, LEDGER, SCHEMA, SETTINGS, Manifest, Part, write_archive
from host.agent.paths import Home
from host.agent.watcher import Say
from host.context import Caller
from host.display import counted
from host.errors import Trouble
from host.repository import open as bare
from host.repository import openings, review
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.exit_codes import Exit
from infra.shared.files import sync_directory
from infra.shared.providers import KEYS, VARIABLES
from infra.shared.repository.git import CANNOT_START, Git, GitError
from infra.shared.safe_files import opened_file
from infra.shared.safe_steps import NotPlain
from infra.shared.settings_file import parse_settings

HEADER_BYTES = 32 << 20
LEFT_OUT = ("work in clones that was not pushed", "logs", "the watcher's memory", "sockets", "the model's key")
GIT_SECONDS = 900.0
"""For all git calls of a backup, or of a restore."""
_KEY_BYTES = 8
"""What is shorter is no key, and may stand anywhere."""


class BackedUp(NamedTuple):
    """A backup that was made."""

    agent: str
    file: str
    bytes: int
    commit: str
    """Of main."""
    refs: int
    parts: dict[str, int]
    """Name -> bytes before packing."""
    left_out: tuple[str, ...]


def back_up(caller: Caller, file: str | None, now: float, say: Say) -> BackedUp:
    """Write a backup of the agent to `file`, which must not be there, running or not. Raises Trouble."""
    home = caller.initialised()
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    target = os.path.abspath(file if file is not None else f"minifram-{home.agent}-{moment}.tar.gz")
    directory = os.path.dirname(target)
    _refuse_what_is_there(target)
    if not os.path.isdir(directory):
        raise Trouble(Exit.NOT_FOUND, f"there is no directory {directory}; make it, or give another FILE")
    settings = _settings(home)
    git = _open_repository(home)
    with tempfile.TemporaryDirectory(prefix=".minifram-backup.", dir=directory) as place:
        refs = _bundle(git, f"{place}/{BUNDLE}", say)
        with open(f"{place}/{SETTINGS}", "wb") as out:
            out.write(settings)
        # After the refs: what the history shows was paid for, and what was paid is to stay so.
        _copy_ledger(home, f"{place}/{LEDGER}")
        parts = _weighed(caller, home, place)
        main = refs[f"refs/heads/{MAIN}"]
        version = version_of(caller.root)
        manifest = Manifest(
            schema=SCHEMA,
            agent=home.agent,
            time=timestamp(now),
            minifram=version,
            main=main,
            parts=parts,
            sandbox=_how_it_lived(home),
        )
        say(f"writing {target}")
        size = write_archive(f"{place}/archive", place, manifest, int(now))
        _publish(f"{place}/archive", target)
    sizes = {name: part.bytes for name, part in parts.items()}
    return BackedUp(home.agent, target, size, main, len(refs), sizes, LEFT_OUT)


def version_of(root: str) -> str:
    with open(f"{root}/pyproject.toml", "rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def bundled_refs(path: str) -> dict[str, str]:
    """Ref -> id of a bundle (gitformat-bundle(5), version 2) with whole history, HEAD left out. Raises ValueError."""
    refs: dict[str, str] = {}
    with open(path, "rb") as file:
        for number, line in enumerate(_header_of_bundle(file.read(HEADER_BYTES))):
            id, _, name = line.decode(errors="surrogateescape").partition(" ")
            if number > openings.QUICK_ENTRIES:
                raise ValueError(f"there are over {openings.QUICK_ENTRIES:,} refs")
            if len(id) != 40 or id.strip("0123456789abcdef") or name in refs:
                raise ValueError(f"the line {line[:80]!r} is not expected at the head of a bundle")
            if name.startswith("refs/"):
                refs[name] = id
            elif name != "HEAD":
                raise ValueError(f"{name[:80]!r} is no ref")
    return refs


def refs_of(git: Git) -> dict[str, str]:
    listed = git.raw("for-each-ref", "--format=%(objectname) %(refname)").decode(errors="surrogateescape")
    pairs = (line.partition(" ") for line in listed.split("\n") if line)
    return {name: id for id, _, name in pairs}


def check_objects(git: Git) -> None:
    """Whether each object is what its name says, and none is missing. Raises GitError."""
    git.raw("fsck", "--full", "--no-dangling", "--no-reflogs", "--no-progress", timeout=GIT_SECONDS)


def words_of(error: GitError) -> str:
    """All that git said; fsck writes what is wrong to stdout."""
    return " ".join(f"{error} {error.stdout[:1000].decode(errors='replace')}".split())


def _header_of_bundle(content: bytes) -> list[bytes]:
    head, end, _ = content.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    if first != b"# v2 git bundle" or not end:
        raise ValueError(f"the bundle begins with {content[:40]!r}, or its refs have no end")
    return lines


def _open_repository(home: Home) -> Git:
    git = bare.open_repository(home).afresh(GIT_SECONDS)
    # The other verbs read some objects, this one all: so each of them is looked at.
    found = (each for each in openings.thorough(home.remote, os.geteuid()) if each.stops)
    planted = list(itertools.islice(found, bare.SHOWN))
    if planted:
        shown = "; ".join(f"{home.remote}/{each.path} {each.what}: {each.remedy}" for each in planted)
        raise Trouble(
            Exit.DENIED,
            f"the repository has been tampered with or is damaged, so no backup is made of it: {shown}. "
            "'minifram doctor' lists everything",
        )
    review.main_commit(git)
    return git


def _bundle(git: Git, path: str, say: Say) -> dict[str, str]:
    """All refs with all their history, in one file; gives them."""
    say("checking every object of the repository")
    try:
        check_objects(git)
    except GitError as error:
        if error.status is None or error.status == CANNOT_START:
            raise
        raise Trouble(
            Exit.FAILURE,
            f"the repository is damaged, so a backup could not be restored ({words_of(error)}); "
            "put what is damaged back from a clone of yours; 'minifram doctor' checks it again",
        ) from None
    before = refs_of(git)
    say(f"packing {counted(len(before), 'ref')} with all history")
    git("bundle", "create", "--quiet", "--version=2", path, "--all", timeout=GIT_SECONDS)
    try:
        refs = bundled_refs(path)
    except ValueError as error:
        raise Trouble(Exit.FAILURE, f"the refs of {git.directory} cannot be backed up: {error}") from None
    # git passes over a ref, without a word, when another one (refs/heads/refs/heads/main) could be meant by its name.
    lost = sorted((before.keys() & refs_of(git).keys() | {f"refs/heads/{MAIN}"}) - refs.keys())
    if lost:
        shown = ", ".join(lost[: bare.SHOWN])
        raise Trouble(
            Exit.DENIED,
            f"git leaves out {shown}: other refs end with the same name, where none of minifram's do; "
            f"find them with 'git -C {git.directory} for-each-ref | grep refs/.*refs/', remove them, try again; "
            "'minifram doctor' looks for other things that were planted",
        )
    return refs


def _how_it_lived(home: Home) -> Literal["podman", "process"]:
    unsealed = running.sandbox_in_use(home) == running.PROCESS and not running.was_sealed(home)
    return "process" if unsealed else "podman"


def _settings(home: Home) -> bytes:
    try:
        with open(home.settings, "rb") as file:
            content = file.read(BOUNDS[SETTINGS] + 1)
    except FileNotFoundError:
        raise Trouble(
            Exit.NOT_FOUND,
            f"the settings of agent {home.agent!r} are missing: expected {home.settings}; "
            "an empty file there means all defaults",
        ) from None
    checked_settings(content, home.settings)
    return content


def checked_settings(content: bytes, source: str) -> None:
    """Raises SettingsError and Trouble for what no agent could start with."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise Trouble(Exit.USAGE, f"{source} is no text in UTF-8 ({error}); write it anew") from None
    if len(content) > BOUNDS[SETTINGS]:
        raise Trouble(Exit.USAGE, f"{source} has over {BOUNDS[SETTINGS]:,} bytes; settings are a page of text")
    parse_settings(text, source)


def _copy_ledger(home: Home, path: str) -> None:
    """As much as there is now; an agent that never asked a model has none."""
    with open(path, "wb") as out:
        try:
            ledger = opened_file(home.places.ledger)
        except FileNotFoundError:
            return
        except NotPlain as error:
            raise Trouble(Exit.CONFLICT, str(error)) from None
        with ledger as file:
            left = os.fstat(file.fileno()).st_size
            while left > 0 and (block := file.read(min(BLOCK, left))):
                out.write(block)
                left -= len(block)


def _weighed(caller: Caller, home: Home, place: str) -> dict[str, Part]:
    """Size and sum of each part. Raises Trouble for one that is too large, or holds the key."""
    secrets = list(_secrets(caller, home))
    parts = {}
    for name, bound in BOUNDS.items():
        size, sum, tail = 0, hashlib.sha256(), b""
        with open(f"{place}/{name}", "rb") as file:
            while block := file.read(BLOCK):
                size += len(block)
                sum.update(block)
                seen = tail + block
                if any(secret in seen for secret in secrets):
                    raise Trouble(
                        Exit.DENIED,
                        f"{name} of agent {home.agent!r} holds the model's key, and a backup never does; take it "
                        f"out of there ({home.settings}, {home.places.ledger}, the names of refs) and try again",
                    )
                tail = seen[-max((len(secret) for secret in secrets), default=1) :]
        if size > bound:
            raise Trouble(
                Exit.FAILURE,
                f"{name} would have {size:,} bytes, and {bound:,} can be restored; copy {home.data} by hand",
            )
        parts[name] = Part(size, sum.hexdigest())
    return parts


def _secrets(caller: Caller, home: Home) -> Iterator[bytes]:
    """The keys that are at hand; the one that podman holds cannot be read, and is nowhere else."""
    given = [caller.environ.get(variable, "").encode(errors="surrogateescape") for variable in VARIABLES]
    for name in KEYS:
        with contextlib.suppress(FileNotFoundError), open(home.key_file(name), "rb") as file:
            given.append(file.read(64 << 10))
    yield from (key.strip() for key in given if len(key.strip()) >= _KEY_BYTES)


def _publish(path: str, target: str) -> None:
    """Give the file its name, which nobody may have taken meanwhile."""
    try:
        os.link(path, target)
    except FileExistsError:
        _refuse_what_is_there(target)
    except OSError:  # a file system without hard links
        _refuse_what_is_there(target)
        os.rename(path, target)
    sync_directory(os.path.dirname(target))


def _refuse_what_is_there(target: str) -> None:
    if os.path.lexists(target):
        raise Trouble(Exit.CONFLICT, f"{target} is already there, and is not overwritten; give another FILE")
