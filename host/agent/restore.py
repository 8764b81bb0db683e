"""`minifram restore`: an agent from the file that `minifram backup` made. Everything in it is verified before anything
is put into place; the agent is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import NamedTuple

from host.agent import mind_files
from host.agent.archive import BUNDLE, HEADS, LEDGER, MIND, SETTINGS, Manifest, opened
from host.agent.backup import GIT_SECONDS, LEFT_OUT, bundled_refs, check_objects, checked_settings, refs_of, words_of
from host.agent.consent import Consent, adopt
from host.agent.init import make_empty_repository, making, try_to
from host.context import Context
from host.display import Say, counted
from host.errors import conflict, failure
from host.paths import AgentPaths, secure_directory, secure_run_directory
from host.repository.open import pm_of, problem_with_repository
from host.running import record
from infra.shared.branches import MAIN
from infra.shared.control import REJECTED
from infra.shared.files import make_directories, sync_directory, sync_tree, write_whole
from infra.shared.mind import heads
from infra.shared.repository.git import Git, GitError
from infra.shared.settings_trust import Difference

_SPARE_BYTES = 64 << 20
"""Of disk, that must be left."""
_REPLACED = "refs/replace/"
"""Never taken: these show the PM's own git other objects than there are, and no container starts beside them."""


class Restored(NamedTuple):
    """An agent that is there again."""

    agent: str
    was: str
    """Its name when the backup was made."""
    time: str
    """When that was."""
    commit: str
    """Of main."""
    refs: int
    ledger_bytes: int
    mind_files: int
    """Days of events, and scratch files."""
    remote: str
    settings: str
    state: str
    not_restored: tuple[str, ...]
    lived: str
    """The sandbox that it lived in, in the archive's words."""
    taken: tuple[Difference, ...]
    """Settings of the archive that the PM agreed to, and those that are not in effect."""
    not_taken: tuple[Difference, ...]


def restore_agent(context: Context, file: str, name: str | None, consent: Consent, say: Say) -> Restored:
    """Make the agent that is in `file`, as `name` or under the name it had. Raises CommandError."""
    with opened(file) as archive:
        manifest = archive.manifest()
        home = context._replace(agent=name or manifest.agent).home
        with making(home, lambda: _refuse(home, manifest)) as unfinished:
            parts = f"{unfinished}/parts"
            os.mkdir(parts)
            say(f"verifying {file}")
            archive.unpack(parts, manifest)
            with open(f"{parts}/{SETTINGS}", "rb") as part:
                source = f"{SETTINGS} in {file}"
                content = checked_settings(part.read(), source)
            adopted = adopt(content, source, manifest.sandbox, consent)
            beside = home._replace(data=unfinished)
            refs = _build(file, manifest, beside, context, say)
            has_events = MIND in manifest.parts
            files = mind_files.unpack(f"{parts}/{MIND}", beside.places.mind) if has_events else 0
            record.write(beside, "", adopted.sealed)
            _put_into_place(home, unfinished, adopted.settings, context.uid)
    return Restored(
        agent=home.agent,
        was=manifest.agent,
        time=manifest.time,
        commit=manifest.main,
        refs=refs,
        ledger_bytes=manifest.parts[LEDGER].bytes,
        mind_files=files,
        remote=home.remote,
        settings=home.settings,
        state=home.state,
        not_restored=(*LEFT_OUT, "what the keep found out about versions"),
        lived=manifest.sandbox,
        taken=adopted.taken,
        not_taken=adopted.not_taken,
    )


def _build(file: str, manifest: Manifest, unfinished: AgentPaths, context: Context, say: Say) -> int:
    """The new agent beside its place, out of the parts; gives how many refs it has. Raises CommandError."""
    bundle = f"{unfinished.data}/parts/{BUNDLE}"
    try:
        refs = bundled_refs(bundle)
        if refs.get(f"refs/heads/{MAIN}") != manifest.main:
            raise ValueError("its main is another than the manifest's")
        say(f"unpacking {counted(len(refs), 'ref')} with all history, and checking every object")
        git = make_empty_repository(unfinished.remote, unfinished.agent, pm_of(context.environ)).within(GIT_SECONDS)
        git("bundle", "verify", "--quiet", bundle)
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules")
        git("fetch", *options, bundle, "+refs/*:refs/*", f"^{_REPLACED}*", timeout=GIT_SECONDS)
        if refs_of(git) != {ref: id for ref, id in refs.items() if not ref.startswith(_REPLACED)}:
            raise ValueError("git does not take all of its refs")
        check_objects(git)
        _drop_beliefs(git, refs)
    except (ValueError, GitError) as error:
        why = words_of(error) if isinstance(error, GitError) else error
        raise failure(f"the repository in {file} cannot be restored: {why}; nothing was restored") from None
    if problem := problem_with_repository(unfinished):
        raise problem
    os.mkdir(unfinished.places.bot, 0o700)
    return sum(not is_belief(ref) for ref in refs)


def _drop_beliefs(git: Git, refs: dict[str, str]) -> None:
    """What another keep found out (verdicts, versions that proved good) or was asked to do: anybody can write that into
    an archive. What the PM rejected only takes from the agent, and stays."""
    dropped = [ref for ref in refs if is_belief(ref) and not ref.startswith(_REPLACED)]
    git("update-ref", "--stdin", "-z", stdin=b"".join(os.fsencode(f"delete {ref}\0\0") for ref in dropped))


def is_belief(ref: str) -> bool:
    return ref.startswith(("refs/minifram/", _REPLACED)) and not ref.startswith(f"{REJECTED}/")


def _put_into_place(home: AgentPaths, unfinished: str, settings: bytes, uid: int) -> None:
    """State, settings and run directory first, then the agent itself; when one fails, none is left."""
    state = f"{os.path.dirname(home.state)}/.{home.agent}.new"
    shutil.rmtree(state, ignore_errors=True)
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, state, ignore_errors=True)
        secure_directory(state, uid)
        for part, name in ((LEDGER, os.path.basename(home.places.ledger)), (HEADS, heads.FILE)):
            packed = f"{unfinished}/parts/{part}"
            if os.path.exists(packed) and os.path.getsize(packed):
                shutil.copyfile(packed, f"{state}/{name}")
                os.chmod(f"{state}/{name}", 0o600)
        sync_tree(state)
        shutil.rmtree(f"{unfinished}/parts")
        if not os.path.lexists(home.run):
            undo.callback(try_to, os.rmdir, home.run)
        secure_run_directory(home, uid)
        make_directories(os.path.dirname(home.settings), 0o700)
        undo.callback(try_to, os.unlink, home.settings)
        write_whole(home.settings, settings, mode=0o600)
        undo.callback(shutil.rmtree, home.state, ignore_errors=True)
        sync_tree(unfinished)  # git syncs objects and refs, and neither HEAD nor a directory
        os.rename(state, home.state)
        sync_directory(os.path.dirname(home.state))
        os.rename(unfinished, home.data)
        undo.pop_all()


def _refuse(home: AgentPaths, manifest: Manifest) -> None:
    """What is there, and a disk that is too full."""
    elsewhere = "give another name with --agent"
    if os.path.lexists(home.data):
        raise conflict(
            f"agent {home.agent!r} is already there ({home.data}), and is not overwritten; {elsewhere}, "
            f"or end it with 'minifram down' and move {home.data}, {home.state} and "
            f"{home.settings} away"
        )
    if os.path.lexists(home.state) and not (os.path.isdir(home.state) and not os.listdir(home.state)):
        raise conflict(f"{home.state} holds the state of an earlier agent {home.agent!r}: move it away, or {elsewhere}")
    if os.path.lexists(home.settings):
        text = "is already there, and the backup has settings of its own: move it away"
        raise conflict(f"{home.settings} {text}, or {elsewhere}")
    # The history is there twice for a moment, as it came and as git keeps it.
    needed = manifest.parts[BUNDLE].bytes + sum(part.bytes for part in manifest.parts.values()) + _SPARE_BYTES
    base = os.path.dirname(home.data)
    free = shutil.disk_usage(base).free
    if free < needed:
        raise failure(f"{base} has {free >> 20:,} MiB of free space, and {needed >> 20:,} are needed")
