"""`minifram backup`: one agent as one file, which `restore` reads.

A backup holds the parts named here and nothing else, so neither the key nor a socket can get in. The
watcher's memory stays out, too: its pids and signals belong to one machine, and COMMS.md says what failed."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

from host.agent import mind_files
from host.agent.archive import (
    BLOCK,
    BOUNDS,
    BUNDLE,
    HEADS,
    LEDGER,
    MIND,
    SCHEMA,
    SETTINGS,
    Manifest,
    Part,
    write_archive,
)
from host.agent.events import mind_of
from host.context import Context
from host.display import Say, counted
from host.errors import conflict, denied, failure, not_found, usage
from host.paths import AgentPaths, missing_settings
from host.project import version_of
from host.repository.audit import QUICK_ENTRIES, thorough
from host.repository.open import SHOWN, open_repository, tampered_with
from host.repository.review import main_commit
from host.running.record import PROCESS, sandbox_in_use, was_sealed
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.files import sync_directory
from infra.shared.mind import heads
from infra.shared.providers import KEYS, VARIABLES
from infra.shared.repository.git import CANNOT_START, Git, GitError
from infra.shared.safe_files import opened_file
from infra.shared.settings_file import parse_settings

_SIGNATURE = b"# v2 git bundle"
"""gitformat-bundle(5)."""
HEADER_BYTES = 32 << 20
LEFT_OUT = (
    *("work in clones that was not pushed", "logs but the mind's events"),
    *("the watcher's memory", "sockets", "the model's key"),
)
GIT_SECONDS = 900.0
"""For all git calls of a backup, or of a restore."""
_KEY_BYTES = 8
"""What is shorter is not a key, and may stand anywhere."""


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


def back_up(context: Context, file: str | None, now: float, say: Say) -> BackedUp:
    """Write a backup of the agent, running or not, to `file`, which must not exist yet. Raises CommandError."""
    if file == "-":
        raise usage("a backup goes to a file with a name, not to standard output; give FILE or nothing")
    home = context.initialised()
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    target = os.path.abspath(file if file is not None else f"minifram-{home.agent}-{moment}.tar.gz")
    directory = os.path.dirname(target)
    _refuse_what_is_there(target)
    if not os.path.isdir(directory):
        raise not_found(f"no such directory: {directory}; create it, or give another FILE")
    settings = _settings(home)
    git = _open_whole(home)
    with tempfile.TemporaryDirectory(prefix=".minifram-backup.", dir=directory) as place:
        refs = _bundle(git, f"{place}/{BUNDLE}", say)
        with open(f"{place}/{SETTINGS}", "wb") as out:
            out.write(settings)
        # After the refs: what the history shows was paid for, and what was paid must stay so.
        _copy(home.places.ledger, f"{place}/{LEDGER}")
        # Before the events: what the keep has noted is among them.
        _copy(f"{home.places.var}/{heads.FILE}", f"{place}/{HEADS}")
        missing = mind_files.pack(mind_of(home), f"{place}/{MIND}")
        parts = _weighed(context, home, place)
        main = refs[f"refs/heads/{MAIN}"]
        unsealed = sandbox_in_use(home) == PROCESS and not was_sealed(home)
        manifest = Manifest(
            schema=SCHEMA,
            agent=home.agent,
            time=timestamp(now),
            minifram=version_of(context.root),
            main=main,
            parts=parts,
            sandbox="process" if unsealed else "podman",
        )
        say(f"writing {target}")
        size = write_archive(f"{place}/archive", place, manifest, int(now))
        _publish(f"{place}/archive", target)
    sizes = {name: part.bytes for name, part in parts.items()}
    left_out = (*LEFT_OUT, mind_files.words_of(missing)) if missing else LEFT_OUT
    return BackedUp(home.agent, target, size, main, len(refs), sizes, left_out)


def bundled_refs(path: str) -> dict[str, str]:
    """Ref -> id of a bundle (gitformat-bundle(5), version 2) with whole history, HEAD left out. Raises ValueError."""
    with open(path, "rb") as file:
        content = file.read(HEADER_BYTES)
    head, end, _ = content.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    if first != _SIGNATURE or not end:
        raise ValueError(f"the bundle begins with {content[:40]!r}, or its refs have no end")
    if len(lines) > QUICK_ENTRIES + 1:
        raise ValueError(f"there are over {QUICK_ENTRIES:,} refs")
    refs: dict[str, str] = {}
    for line in lines:
        id, _, name = line.decode(errors="surrogateescape").partition(" ")
        if len(id) != 40 or id.strip("0123456789abcdef") or name in refs:
            raise ValueError(f"the line {line[:80]!r} is not expected at the head of a bundle")
        if name.startswith("refs/"):
            refs[name] = id
        elif name != "HEAD":
            raise ValueError(f"{name[:80]!r} is not a ref")
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


def checked_settings(content: bytes, source: str) -> bytes:
    """Raises SettingsError and CommandError for what no agent could start with."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise usage(f"{source} is not text in UTF-8 ({error}); write it again") from None
    if len(content) > BOUNDS[SETTINGS]:
        raise usage(f"{source} has over {BOUNDS[SETTINGS]:,} bytes; settings are a page of text")
    parse_settings(text, source)
    return content


def _open_whole(home: AgentPaths) -> Git:
    """Other commands read some objects, this one all: so each of them is looked at."""
    git = open_repository(home).afresh(GIT_SECONDS)
    found = (each for each in thorough(home.remote, os.geteuid()) if each.stops)
    if planted := list(itertools.islice(found, SHOWN)):
        raise tampered_with(home.remote, planted, "no backup is made of it")
    main_commit(git)
    return git


def _bundle(git: Git, path: str, say: Say) -> dict[str, str]:
    """All refs with all their history, in one file; gives them."""
    say("checking every object of the repository")
    try:
        check_objects(git)
    except GitError as error:
        if error.status is None or error.status == CANNOT_START:
            raise
        raise failure(
            f"the repository is damaged, so a backup could not be restored ({words_of(error)}); "
            "put what is damaged back from a clone of yours; 'minifram doctor' checks it again"
        ) from None
    refs = refs_of(git)
    say(f"packing {counted(len(refs), 'ref')} with all history")
    # `git bundle create` reads each ref again when it writes the header, and leaves out without a word what has moved
    # since, and what could be meant by two names.
    head = [("HEAD", refs[f"refs/heads/{MAIN}"]), *sorted(refs.items())]
    packed = git.pieces(
        *("pack-objects", "--quiet", "--revs", "--delta-base-offset", "--stdout"),
        stdin="".join(f"{id}\n" for _, id in head).encode(),
        timeout=GIT_SECONDS,
    )
    with open(path, "wb") as file, contextlib.closing(packed):
        file.write(_SIGNATURE + b"\n")
        file.writelines(f"{id} {name}\n".encode(errors="surrogateescape") for name, id in head)
        file.write(b"\n")
        file.writelines(packed)
    try:
        return bundled_refs(path)
    except ValueError as error:
        raise failure(f"the refs of {git.directory} cannot be backed up: {error}") from None


def _settings(home: AgentPaths) -> bytes:
    try:
        with open(home.settings, "rb") as file:
            return checked_settings(file.read(BOUNDS[SETTINGS] + 1), home.settings)
    except FileNotFoundError:
        raise missing_settings(home) from None


def _copy(source: str, path: str) -> None:
    """As much of a file of the keep's as there is now; one that is missing is empty."""
    with open(path, "wb") as out:
        try:
            with opened_file(source) as file:
                left = os.fstat(file.fileno()).st_size
                while left > 0 and (block := file.read(min(BLOCK, left))):
                    out.write(block)
                    left -= len(block)
        except FileNotFoundError:
            return
        except ValueError:
            raise conflict(f"{source} is not a regular file; find out what put it there") from None


def _weighed(context: Context, home: AgentPaths, place: str) -> dict[str, Part]:
    """Size and sum of each part. Raises CommandError for one that is too large, or holds the key."""
    secrets = list(_secrets(context, home))
    longest = max(map(len, secrets), default=1)
    parts = {}
    for name, bound in BOUNDS.items():
        size, sum, tail = 0, hashlib.sha256(), b""
        with open(f"{place}/{name}", "rb") as file:
            while block := file.read(BLOCK):
                size += len(block)
                sum.update(block)
                seen = tail + block
                if any(secret in seen for secret in secrets):
                    raise denied(
                        f"{name} of agent {home.agent!r} holds the model's key, and a backup never does; take it "
                        f"out of there ({home.settings}, {home.places.ledger}, {mind_of(home).root}, names of refs), "
                        "then try again"
                    )
                tail = seen[-longest:]
        if size > bound:
            raise failure(f"{name} would have {size:,} bytes, and {bound:,} can be restored; copy {home.data} by hand")
        parts[name] = Part(size, sum.hexdigest())
    return parts


def _secrets(context: Context, home: AgentPaths) -> Iterator[bytes]:
    """The keys that are at hand; the one that podman holds cannot be read, and is nowhere else."""
    given = [context.environ.get(variable, "").encode(errors="surrogateescape") for variable in VARIABLES]
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
        raise conflict(f"{target} is already there, and is not overwritten; give another FILE")
