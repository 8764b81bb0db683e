"""A repository that somebody else can write must not make us run programs. Each way in is first shown to be one:
git itself, run plainly in the same repository, runs the program."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.keep.repository.bare_tip import BareTip, rollback_commit
from infra.shared.people import AGENT
from infra.shared.repository.changes import changes_beyond_page
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.merge import merge_commit
from infra.shared.repository.tip import advance, edit_file, read_file
from tests.shared.repository.history import bare_repository, commit, contents, plain


class Trap:
    """A clone whose configuration and attributes can name a program that leaves a mark."""

    def __init__(self, directory: Path, template: Path) -> None:
        self.directory = directory / "clone"
        self.mark = directory / "ran"
        self.program = directory / "program"
        self.program.write_text(f"#!/bin/sh\ntouch '{self.mark}'\nexit 1\n")
        self.program.chmod(0o755)
        shutil.copytree(template, self.directory)

    def set(self, key: str, value: str = "") -> None:
        plain(self.directory, "config", key, value or str(self.program))

    def attribute(self, line: str) -> None:
        (self.directory / ".git/info").mkdir(exist_ok=True)
        (self.directory / ".git/info/attributes").write_text(f"a {line}\n")

    def change(self) -> None:
        (self.directory / "a").write_text("2\n")

    def sprung(self) -> bool:
        """Whether the program ran since the last time this was asked."""
        ran = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        return ran


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone with one commit."""
    made = tmp_path_factory.mktemp("template")
    plain(made, "init", "--quiet", "--template=", "--initial-branch=main")
    (made / "a").write_text("1\n")
    plain(made, "add", "a")
    plain(made, "commit", "--quiet", "-m", "one")
    return made


@pytest.fixture
def trap(tmp_path: Path, template: Path) -> Trap:
    return Trap(tmp_path, template)


def hooks(trap: Trap) -> None:
    (trap.directory / ".git/hooks").mkdir()
    for hook in ("pre-commit", "post-commit", "reference-transaction", "post-index-change", "post-checkout"):
        os.symlink(trap.program, trap.directory / ".git/hooks" / hook)


def hooks_path(trap: Trap) -> None:
    hooks(trap)
    os.rename(trap.directory / ".git/hooks", trap.directory / "h")
    trap.set("core.hooksPath", str(trap.directory / "h"))


def with_attribute(attribute: str, key: str) -> Callable[[Trap], None]:
    def lay(trap: Trap) -> None:
        trap.attribute(attribute)
        trap.set(key)
        trap.change()

    return lay


def with_setting(*pairs: tuple[str, str]) -> Callable[[Trap], None]:
    def lay(trap: Trap) -> None:
        for key, value in pairs:
            trap.set(*(word.replace("PROGRAM", str(trap.program)) for word in (key, value)))
        trap.change()

    return lay


WAYS_IN: dict[str, tuple[Callable[[Trap], None], str]] = {
    "hooks": (hooks, "commit --allow-empty -m x"),
    "core.hooksPath": (hooks_path, "commit --allow-empty -m x"),
    "hooks on a ref": (hooks, "update-ref refs/heads/x HEAD"),
    "hooks on a checkout": (hooks, "checkout -f main"),
    "core.fsmonitor": (with_setting(("core.fsmonitor", "PROGRAM")), "status"),
    "core.editor": (with_setting(("core.editor", "PROGRAM")), "commit --allow-empty"),
    "diff.external": (with_setting(("diff.external", "PROGRAM")), "diff"),
    "diff.command": (with_attribute("diff=x", "diff.x.command"), "diff"),
    "diff.textconv in diff": (with_attribute("diff=x", "diff.x.textconv"), "diff"),
    "diff.textconv in log": (with_attribute("diff=x", "diff.x.textconv"), "log -p"),
    "diff.textconv in show": (with_attribute("diff=x", "diff.x.textconv"), "show HEAD"),
    "diff.textconv in blame": (with_attribute("diff=x", "diff.x.textconv"), "blame a"),
    "gpg.program": (with_setting(("gpg.program", "PROGRAM"), ("commit.gpgSign", "true")), "commit --allow-empty -m x"),
    "gpg.program on a tag": (with_setting(("gpg.program", "PROGRAM"), ("tag.gpgSign", "true")), "tag -m x x"),
    "core.sshCommand": (with_setting(("core.sshCommand", "PROGRAM")), "fetch ssh://127.0.0.1/x"),
    "core.gitProxy": (with_setting(("core.gitProxy", "PROGRAM")), "fetch git://127.0.0.1:9/x"),
    "core.askPass": (with_setting(("core.askPass", "PROGRAM")), "credential fill"),
    "credential.helper": (with_setting(("credential.helper", "PROGRAM")), "credential fill"),
    "lazy fetch by ext": (
        with_setting(
            ("remote.evil.promisor", "true"), ("remote.evil.url", "ext::PROGRAM"), ("protocol.ext.allow", "always")
        ),
        f"cat-file -e {'1' * 40}",
    ),
    "lazy fetch by uploadpack": (
        with_setting(("remote.evil.promisor", "true"), ("remote.evil.url", "."), ("remote.evil.uploadpack", "PROGRAM")),
        f"cat-file -e {'1' * 40}",
    ),
    "ext transport": (
        with_setting(("protocol.ext.allow", "always"), ("remote.origin.url", "ext::PROGRAM")),
        "fetch origin",
    ),
    "ext transport by another name": (
        with_setting(("protocol.ext.allow", "always"), ("url.ext::PROGRAM .insteadOf", "/mnt/")),
        "fetch /mnt/remote",
    ),
}


@pytest.mark.attack("S21")
@pytest.mark.parametrize("way", WAYS_IN)
def test_a_program_that_the_repository_names_does_not_run(trap: Trap, way: str) -> None:
    """Hooks, monitors, editors, drivers, signers, transports: git runs it, our git does not."""
    lay, words = WAYS_IN[way]
    lay(trap)
    trap.sprung()
    asked = "protocol=https\nhost=example.invalid\n\n"  # read by `credential` alone
    plain(trap.directory, *words.split(), stdin=asked)
    assert trap.sprung(), "the control: this way in does not work, so the test shows nothing"
    with contextlib.suppress(GitError):
        Git(str(trap.directory), AGENT)(*words.split(), stdin=asked.encode())
    assert not trap.sprung()


@pytest.mark.parametrize("words", ["diff", "log -p", "show HEAD", "blame a"])
def test_changes_are_shown_all_the_same(trap: Trap, words: str) -> None:
    """With drivers switched off there is an answer, not an error."""
    with_attribute("diff=x", "diff.x.textconv")(trap)
    trap.set("diff.external")
    assert "1" in Git(str(trap.directory))(*words.split())
    assert not trap.sprung()


def test_our_own_moves_meet_no_driver_at_all(tmp_path: Path) -> None:
    """Reading, editing, merging and rolling back work on objects: filters, drivers and hooks have no part in them."""
    git = bare_repository(tmp_path / "r")
    mark, program = tmp_path / "ran", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch '{mark}'\ncat\n")
    program.chmod(0o755)
    attributes = "* filter=x diff=x text eol=crlf ident working-tree-encoding=UTF-16\n"
    base = commit(git, {".gitattributes": attributes, "COMMS.md": "0 $Id$\r\n", "a": "1\n"})
    branch = commit(git, {".gitattributes": attributes, "COMMS.md": "0 $Id$\r\n", "a": "2\n"}, base, branch="b")
    plain(git.directory, "config", "core.autocrlf", "true")
    for key in ("filter.x.clean", "filter.x.smudge", "diff.x.command", "diff.x.textconv", "diff.external"):
        plain(git.directory, "config", key, str(program))
    os.makedirs(f"{git.directory}/hooks")
    for hook in ("reference-transaction", "pre-commit", "update", "post-update"):
        os.symlink(program, f"{git.directory}/hooks/{hook}")
    tip = BareTip(git)
    advance(tip, edit_file(git, "COMMS.md", lambda text: text + "1\n", "m"))
    merged = advance(tip, lambda seen: merge_commit(git, seen, branch, "m"))
    rolled = advance(tip, lambda seen: rollback_commit(git, seen, base, "m"))
    assert contents(git, merged)["a"] == "2\n"
    assert contents(git, rolled)["a"] == "1\n"
    assert read_file(git, rolled, "COMMS.md") == "0 $Id$\r\n1\n"
    assert changes_beyond_page(git, merged, rolled)
    assert not mark.exists()
    plain(git.directory, "update-ref", "refs/heads/x", base)
    assert mark.exists(), "the control: nothing was laid there"


@pytest.mark.attack("S22")
def test_replaced_objects_are_seen_as_they_are(tmp_path: Path) -> None:
    """A replace ref or a graft would show another history than there is."""
    git = bare_repository(tmp_path / "r")
    first = commit(git, {"COMMS.md": "true"})
    second = commit(git, {"COMMS.md": "more"}, first)
    other = commit(git, {"COMMS.md": "false"}, branch="other")
    plain(git.directory, "replace", first, other)
    (tmp_path / "r/info").mkdir(exist_ok=True)
    (tmp_path / "r/info/grafts").write_text(f"{second}\n")
    assert plain(git.directory, "show", f"{first}:COMMS.md").stdout == "false"
    assert plain(git.directory, "rev-list", "--count", second).stdout == "1\n"
    assert read_file(git, first, "COMMS.md") == "true"
    assert git("rev-list", "--count", second) == "2"


@pytest.mark.attack("S22")
def test_caches_beside_the_objects_are_not_believed(tmp_path: Path) -> None:
    """A commit-graph whose checksum is right can give a commit another tree."""
    git = bare_repository(tmp_path / "r")
    first = commit(git, {"COMMS.md": "true"})
    second = commit(git, {"COMMS.md": "more"}, first)
    ours, theirs = (plain(git.directory, "rev-parse", f"{each}^{{tree}}").stdout.strip() for each in (second, first))
    plain(git.directory, "commit-graph", "write", "--reachable")
    path = tmp_path / "r/objects/info/commit-graph"
    graph = path.read_bytes()[:-20].replace(bytes.fromhex(ours), bytes.fromhex(theirs))
    path.unlink()
    path.write_bytes(graph + hashlib.sha1(graph, usedforsecurity=False).digest())
    told = ("log", "-1", "--format=%T", second)
    assert plain(git.directory, *told).stdout.strip() == theirs
    assert git(*told) == ours
