"""`minifram restore`: an agent from the file that `minifram backup` made. Everything in it is verified before anything
is put into place; the agent is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import NamedTuple

from host.agent import backup
from host.agent import init as birth
from host.agent import up as running
from host.agent.archive import BLOCK, BUNDLE, LEDGER, SETTINGS, Manifest, opened
from host.agent.consent import Adopted, Consent, adopt
from host.agent.paths import Home, secure_directory, secure_run_directory
from host.agent.watcher import Say
from host.context import Caller, as_option
from host.display import counted
from host.errors import Trouble
from host.repository import open as bare
from infra.shared.branches import MAIN
from infra.shared.control import REJECTED
from infra.shared.exit_codes import Exit
from infra.shared.files import make_directories, sync_directory, sync_tree, write_whole
from infra.shared.repository.git import Git, GitError
from infra.shared.settings_trust import Difference

_SPARE_BYTES = 64 << 20
"""Of disk, that is to be left."""
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
    remote: str
    settings: str
    state: str
    not_restored: tuple[str, ...]
    lived: str
    """The sandbox that it lived in, in the archive's words."""
    taken: tuple[Difference, ...]
    """Settings of the archive that the PM agreed to, and those that are not in effect."""
    not_taken: tuple[Difference, ...]


def restore(caller: Caller, file: str, name: str | None, consent: Consent, say: Say) -> Restored:
    """Make the agent that is in `file`, as `name` or under the name it had. Raises Trouble."""
    with opened(file) as archive:
        manifest = archive.manifest()
        home = caller._replace(agent=name or manifest.agent).home
        birth.refuse_long_sockets(home)
        base = os.path.dirname(home.data)
        make_directories(base, 0o700)
        with birth.alone_in(base):
            _refuse_what_is_there(home)
            _refuse_full_disk(base, manifest)
            unfinished = f"{base}/.{home.agent}.new"
            shutil.rmtree(unfinished, ignore_errors=True)  # an earlier init or restore that was killed
            try:
                os.mkdir(unfinished, 0o700)
                os.mkdir(f"{unfinished}/parts")
                say(f"verifying {file}")
                archive.unpack(f"{unfinished}/parts", manifest)
                adopted = _adopted(file, manifest, unfinished, consent)
                refs = _build(file, manifest, home._replace(data=unfinished), caller, say)
                running.remember_restored(home._replace(data=unfinished), adopted.sealed)
                _put_into_place(home, unfinished, adopted.settings, caller.uid)
            except BaseException:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise
    size = manifest.parts[LEDGER].bytes
    places = (home.remote, home.settings, home.state)
    return Restored(
        home.agent,
        manifest.agent,
        manifest.time,
        manifest.main,
        refs,
        size,
        *places,
        not_restored=(*backup.LEFT_OUT, "what the keep found out about versions"),
        lived=manifest.sandbox,
        taken=adopted.taken,
        not_taken=adopted.not_taken,
    )


def _adopted(file: str, manifest: Manifest, unfinished: str, consent: Consent) -> Adopted:
    """The settings, after the PM was asked. Raises SettingsError and Trouble."""
    with open(f"{unfinished}/parts/{SETTINGS}", "rb") as part:
        content = part.read()
    source = f"{SETTINGS} in {file}"
    backup.checked_settings(content, source)
    return adopt(content, source, manifest.sandbox, consent)


def _build(file: str, manifest: Manifest, unfinished: Home, caller: Caller, say: Say) -> int:
    """The new agent beside its place, out of the parts; gives how many refs it has. Raises Trouble."""
    parts = f"{unfinished.data}/parts"
    try:
        refs = backup.bundled_refs(f"{parts}/{BUNDLE}")
        if refs.get(f"refs/heads/{MAIN}") != manifest.main:
            raise ValueError("its main is another than the manifest's")
        say(f"unpacking {counted(len(refs), 'ref')} with all history, and checking every object")
        _build_repository(unfinished, f"{parts}/{BUNDLE}", refs, caller)
    except (ValueError, GitError) as error:
        why = backup.words_of(error) if isinstance(error, GitError) else error
        raise Trouble(
            Exit.FAILURE, f"the repository in {file} cannot be restored: {why}; nothing was restored"
        ) from None
    os.mkdir(unfinished.places.bot, 0o700)
    return sum(not is_belief(ref) for ref in refs)


def _build_repository(unfinished: Home, bundle: str, refs: dict[str, str], caller: Caller) -> None:
    """Raises GitError, ValueError, Trouble."""
    remote = unfinished.remote
    birth.make_empty_repository(remote, unfinished.agent, bare.pm_of(caller.environ))
    git = bare.git_on(remote).within(backup.GIT_SECONDS)
    git("bundle", "verify", "--quiet", bundle)
    options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules")
    git("fetch", *options, bundle, "+refs/*:refs/*", f"^{_REPLACED}*", timeout=backup.GIT_SECONDS)
    if backup.refs_of(git) != {ref: id for ref, id in refs.items() if not ref.startswith(_REPLACED)}:
        raise ValueError("git does not take all of its refs")
    backup.check_objects(git)
    _drop_beliefs(git, refs)
    problem = bare.problem_with_repository(unfinished)
    if problem:
        raise problem


def _drop_beliefs(git: Git, refs: dict[str, str]) -> None:
    """What another keep found out (verdicts, versions that proved good) or was asked to do: anybody can write that into
    an archive. What the PM rejected only takes from the agent, and stays."""
    dropped = [ref for ref in refs if is_belief(ref) and not ref.startswith(_REPLACED)]
    git("update-ref", "--stdin", "-z", stdin=b"".join(os.fsencode(f"delete {ref}\0\0") for ref in dropped))


def is_belief(ref: str) -> bool:
    return ref.startswith(("refs/minifram/", _REPLACED)) and not ref.startswith(f"{REJECTED}/")


def _put_into_place(home: Home, unfinished: str, settings: bytes, uid: int) -> None:
    """State, settings and run directory first, then the agent itself; when one fails, none is left."""
    state = f"{os.path.dirname(home.state)}/.{home.agent}.new"
    shutil.rmtree(state, ignore_errors=True)
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, state, ignore_errors=True)
        secure_directory(state, uid)
        _put_ledger(f"{unfinished}/parts/{LEDGER}", f"{state}/{os.path.basename(home.places.ledger)}")
        shutil.rmtree(f"{unfinished}/parts")
        if not os.path.lexists(home.run):
            undo.callback(_remove_directory, home.run)
        secure_run_directory(home, uid)
        make_directories(os.path.dirname(home.settings), 0o700)
        undo.callback(_remove, home.settings)
        write_whole(home.settings, settings)
        undo.callback(shutil.rmtree, home.state, ignore_errors=True)
        sync_tree(unfinished)  # git syncs objects and refs, and neither HEAD nor a directory
        os.rename(state, home.state)
        sync_directory(os.path.dirname(home.state))
        os.rename(unfinished, home.data)
        undo.pop_all()
    sync_directory(os.path.dirname(home.data))


def _put_ledger(source: str, target: str) -> None:
    if not os.path.getsize(source):
        return
    with open(source, "rb") as file, open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        shutil.copyfileobj(file, out, BLOCK)
        out.flush()
        os.fsync(out.fileno())


def _refuse_what_is_there(home: Home) -> None:
    elsewhere = "give another name with --agent"
    if os.path.lexists(home.data):
        raise Trouble(
            Exit.CONFLICT,
            f"agent {home.agent!r} is already there ({home.data}), and is not overwritten; {elsewhere}, "
            f"or end it with 'minifram down{as_option(home.agent)}' and move {home.data}, {home.state} and "
            f"{home.settings} away",
        )
    if os.path.lexists(home.state) and not (os.path.isdir(home.state) and not os.listdir(home.state)):
        raise Trouble(
            Exit.CONFLICT,
            f"{home.state} holds the state of an earlier agent {home.agent!r}: move it away, or {elsewhere}",
        )
    if os.path.lexists(home.settings):
        raise Trouble(
            Exit.CONFLICT,
            f"{home.settings} is already there, and the backup has settings of its own: move it away, or {elsewhere}",
        )


def _refuse_full_disk(base: str, manifest: Manifest) -> None:
    # The history is there twice for a moment, as it came and as git keeps it.
    needed = manifest.parts[BUNDLE].bytes + sum(part.bytes for part in manifest.parts.values()) + _SPARE_BYTES
    free = shutil.disk_usage(base).free
    if free < needed:
        raise Trouble(Exit.FAILURE, f"{base} has {free >> 20:,} MiB of free space, and {needed >> 20:,} are needed")


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):  # already unwinding from the trouble that counts
        os.unlink(path)


def _remove_directory(path: str) -> None:
    with contextlib.suppress(OSError):  # as above
        os.rmdir(path)
