"""`minifram backup` and `minifram init --from FILE`: an agent as one file, and an agent that begins with one.

An archive brings data, never settings: those are put beside the new ones for the PM to read. Of its repository
branches, tags and what the PM rejected are taken, and checked by git; what another keep concluded is not."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from host.cli import command
from host.errors import conflict, failure, not_found
from host.home import AgentPaths, Context, sync_tree
from host.repository import main_commit, open_repository
from host.screen import Say, Shown, counted, strong
from infra.keep import taint
from infra.keep.repository.bare_tip import REJECTED
from infra.shared.files import sync
from infra.shared.mind.event import event_files
from infra.shared.repository.git import Git, GitError
from infra.shared.safe_files import Below, opened_file

GIT_SECONDS = 900.0
BUNDLE, SETTINGS, LEDGER, TRUST = "repository.bundle", "minifram.yaml", "ledger.jsonl", taint.NAME
NAMES = BUNDLE, SETTINGS, LEDGER, TRUST
EVENTS = "events"
FOUND = "from-backup"
"""What the name of the settings that came along ends with, beside the agent's own."""
REFS = ("refs/heads/*", "refs/tags/*", f"{REJECTED}/*")
_EVENTS = re.compile(rf"{EVENTS}/[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}\.jsonl")


@command
@click.argument("file", required=False, type=click.Path())
def backup(context: Context, say: Say, file: str | None) -> Shown:
    """Write an agent, running or not, to one file, with which 'minifram init --from' begins.

    FILE (default: minifram-AGENT-TIME.tar.gz, here) must not exist yet. It holds the repository with all branches
    and tags, and so the mind; the mind's events; your settings; the ledger of model calls; what taints it. It holds no
    model's key, no other logs, and no work in the agent's clones that was not pushed.

    \b
    Examples:
      minifram backup
      minifram backup /mnt/safe/agent.tar.gz --agent second
    """
    home = context.initialised()
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    target = Path(file or f"minifram-{home.agent}-{moment}.tar.gz").absolute()
    if os.path.lexists(target):
        raise conflict(f"{target} is already there, and is not overwritten; give another FILE")
    if not target.parent.is_dir():
        raise not_found(f"no such directory: {target.parent}; create it, or give another FILE")
    git = open_repository(home).afresh(GIT_SECONDS)
    with tempfile.TemporaryDirectory(prefix=".minifram-backup.", dir=target.parent) as place:
        say(f"copying {home.remote}")
        # By way of a mirror: 'git bundle' reads the refs twice, and leaves out what has moved between.
        git("clone", "--quiet", "--mirror", "--no-local", home.remote, f"{place}/mirror", timeout=GIT_SECONDS)
        mirror = Git(f"{place}/mirror")
        mirror("bundle", "create", "--quiet", f"{place}/{BUNDLE}", "--all", timeout=GIT_SECONDS)
        commit = main_commit(mirror)
        if trust := taint.memory_of(home.places.var, mirror, time.time()):
            Path(place, TRUST).write_bytes(trust)
        say(f"writing {target}")
        with tarfile.open(f"{place}/file", "x:gz", compresslevel=1, dereference=True) as out:
            for name, opened in _parts(home, place, say):
                out.addfile(out.gettarinfo(arcname=name, fileobj=opened), opened)
        os.chmod(f"{place}/file", 0o600)
        sync_tree(place)
        os.rename(f"{place}/file", target)
        sync(str(target.parent))
    size = target.stat().st_size
    value = {"agent": home.agent, "file": str(target), "bytes": size, "commit": commit}
    lines = f"{strong('backup')}  {target} ({counted(size, 'byte')}), main at {commit[:12]}"
    return Shown(value, lines, "it holds everything that the agent and you wrote: keep it where only you read")


def begin_from(file: str, git: Git, home: AgentPaths, unfinished: str, say: Say) -> str:
    """Fill an agent that is being made in `unfinished`, with `git` on its empty repository and its state there, from a
    backup; gives main's commit. Raises CommandError."""
    parts = f"{unfinished}/parts"
    _unpack(file, parts)
    say("checking every object")
    git, mirrored = git.within(GIT_SECONDS), [f"+{ref}:{ref}" for ref in REFS]
    try:
        git("fetch", "--quiet", "--no-tags", f"{parts}/{BUNDLE}", *mirrored, timeout=GIT_SECONDS)
        git("fsck", "--full", "--no-dangling", "--no-reflogs", "--no-progress", timeout=GIT_SECONDS)
        commit = main_commit(git)
    except GitError as error:
        raise failure(f"the repository in {file} cannot be taken: {error}") from None
    beside = f"{home.settings}.{FOUND}"
    os.makedirs(os.path.dirname(beside), 0o700, exist_ok=True)
    var = home.places.var
    into = {LEDGER: home.places.ledger, TRUST: f"{var}/{TRUST}", SETTINGS: beside}
    for name, where in into.items():
        if os.path.exists(f"{parts}/{name}"):
            shutil.copyfile(f"{parts}/{name}", where)
            os.chmod(where, 0o600)
    if os.path.isdir(f"{parts}/{EVENTS}"):
        shutil.copytree(f"{parts}/{EVENTS}", f"{unfinished}/{EVENTS}", dirs_exist_ok=True)
    shutil.rmtree(parts)
    sync_tree(home.state)
    say(f"its settings are not taken; they lie in {beside}, for you to compare with {home.settings}")
    return commit


def _parts(home: AgentPaths, place: str, say: Say) -> Iterator[tuple[str, BinaryIO]]:
    """Name and content; the ledger after the refs, so that what the history shows was paid for."""
    kept = (f"{place}/{BUNDLE}", os.path.realpath(home.settings), home.places.ledger, f"{place}/{TRUST}")
    events = ((f"{EVENTS}/{day}", f"{home.places.events}/{day}") for day in event_files(Below(home.places.events)))
    for name, path in (*zip(NAMES, kept, strict=True), *events):
        try:
            opened = opened_file(path)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            say(f"{name} is left out: {error}")
            continue
        with opened:
            yield name, opened


def _unpack(file: str, place: str) -> None:
    """Plain files with names that a backup has, and nothing else. Raises CommandError."""
    try:
        with tarfile.open(file, "r:gz") as packed:
            for each in packed:
                content = packed.extractfile(each) if each.isreg() else None
                if content and (each.name in NAMES or _EVENTS.fullmatch(each.name)):
                    target = Path(place, each.name)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with target.open("xb") as out:
                        shutil.copyfileobj(content, out)
    except (OSError, tarfile.TarError, EOFError) as error:
        raise failure(f"{file} cannot be read as a backup of minifram's: {error}") from None
