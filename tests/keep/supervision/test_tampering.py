"""What a bad branch leaves in the `.git` of main's clone does not reach the good main; what git and the runner write
there in ordinary use is no reason for a new clone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.cell.runner.context import link_signals
from infra.keep.supervision.checkouts import Ready
from infra.keep.supervision.tampering import Tampering, tampering
from infra.shared.boot import Boot
from tests.cell.runner.cell import limits
from tests.keep.supervision.agents import Agent
from tests.keep.supervision.test_checkouts import WALL, Main, in_the_middle_of_a_rebase

MakeAgent = Callable[..., Agent]


@pytest.fixture
def main(make_agent: MakeAgent) -> Main:
    return Main(make_agent())


def as_the_agent(main: Main, *words: str) -> str:
    """Any git command, with the agent's configuration alone and all that git does by itself."""
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": main.agent.places.cell_git_config, "GIT_EDITOR": "true"}
    done = subprocess.run(["git", *words], cwd=main.path, env=env, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def found(main: Main) -> frozenset[Tampering]:
    return tampering(str(main.path / ".git"), main.agent.places.remote)


def _write(name: str, text: str) -> Callable[[Main], None]:
    def leave(main: Main) -> None:
        path = main.path / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return leave


def _set(key: str, value: str) -> Callable[[Main], None]:
    def leave(main: Main) -> None:
        main.git("config", key, value)

    return leave


def _append(text: str) -> Callable[[Main], None]:
    def leave(main: Main) -> None:
        with open(main.path / ".git/config", "a") as file:
            file.write(text)

    return leave


def _moved(name: str) -> Callable[[Main], None]:
    """Outside, with a link in its place."""

    def leave(main: Main) -> None:
        away = main.path.parent / "away"
        os.rename(main.path / ".git" / name, away)
        (main.path / ".git" / name).symlink_to(away)

    return leave


def _replaced(main: Main) -> None:
    main.git("replace", "HEAD:behaviour", "HEAD:COMMS.md")


def _replaced_and_packed(main: Main) -> None:
    _replaced(main)
    main.git("pack-refs", "--all")
    assert not any((main.path / ".git/refs/replace").rglob("?*"))
    os.rmdir(main.path / ".git/refs/replace")


LEFT: dict[str, Callable[[Main], object]] = {
    "filter.x.smudge": _set("filter.x.smudge", "touch /tmp/x"),
    "core.hooksPath": _set("core.hooksPath", "/tmp"),
    "core.fsmonitor": _set("core.fsmonitor", "touch /tmp/x"),
    "core.sshCommand": _set("core.sshCommand", "touch /tmp/x"),
    "alias": _set("alias.st", "!touch /tmp/x"),
    "include": _set("include.path", "/tmp/x"),
    "remote of its own": _set("remote.other.url", "/tmp"),
    "origin": _set("remote.origin.url", "/tmp"),
    "second origin": lambda main: main.git("config", "--add", "remote.origin.url", "/tmp"),
    "uploadpack": _set("remote.origin.uploadpack", "touch /tmp/x"),
    "what is fetched": _set("remote.origin.fetch", "+refs/heads/bad:refs/remotes/origin/main"),
    "where a branch goes": _set("branch.main.pushRemote", "/tmp"),
    "where a branch comes from": _set("branch.main.remote", "/tmp"),
    "one line": _append("[alias] st = !touch /tmp/x\n"),
    "behind a line that goes on": _append("[user]\n\tname = a\\\nb\n[alias] b = c\n"),
    "unreadable": _append('[user]\n\tname = "a\n'),
    "without a value": _append("[core]\n\tbare\n"),
    "config.worktree": _write("config.worktree", "[alias]\n\tst = x\n"),
    "hook": _write("hooks/post-checkout", "#!/bin/sh\n"),
    "attributes": _write("info/attributes", "* filter=x\n"),
    "exclude": _write("info/exclude", "# usual\n/.signal\nthought\n"),
    "grafts": _write("info/grafts", ""),
    "sparse-checkout": _write("info/sparse-checkout", "x\n"),
    "alternates": _write("objects/info/alternates", "/tmp\n"),
    "commondir": _write("commondir", "../../other\n"),
    "commondir where capital letters count for nothing": _write("COMMONDIR", "../../other\n"),
    "shallow": _write("shallow", ""),
    "rr-cache": _write("rr-cache/x/postimage", "THEIRS"),
    "legacy remote": _write("remotes/other", "URL: /tmp\n"),
    "legacy branch": _write("branches/other", "/tmp\n"),
    "module": _write("modules/x/config", ""),
    "worktree": lambda main: main.git("worktree", "add", "-q", "-b", "side", "../side"),
    "replaced": _replaced,
    "replaced and packed": _replaced_and_packed,
    "hooks are a link": _moved("hooks"),
    "info is a link": _moved("info"),
    "config is a link": _moved("config"),
    "objects are a link": _moved("objects"),
    "a pipe among the refs": lambda main: os.mkfifo(main.path / ".git/refs/remotes/origin/pipe"),
    "a directory elsewhere among the refs": lambda main: (main.path / ".git/refs/heads/x").symlink_to("/tmp"),
    "a link among the refs": lambda main: (main.path / ".git/refs/tags/x").symlink_to("../heads/main"),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_git_would_follow_does_not_reach_the_next_main(main: Main, name: str) -> None:
    """Main has a clone as new, what is in the old one is kept whole and told of; the control: a clone where nothing
    was left is the very same afterwards."""
    before = os.stat(main.path).st_ino
    assert main.bring() == Ready(main.git("rev-parse", "HEAD"))
    assert os.stat(main.path).st_ino == before
    (main.path / "thought").write_text("THE WORK")
    LEFT[name](main)

    ready = main.bring(WALL + 1)

    assert os.stat(main.path).st_ino != before
    assert not found(main)
    assert main.is_right()
    assert main.kept("THE WORK")
    assert "minifram.aside-" in ready.rescued
    assert main.bring(WALL + 2) == Ready(ready.commit)


@pytest.mark.parametrize("text", ["[user]\n\tname = a\\\n[alias] b = c\n", '[user]\n\tname = "a" # b\n'])
def test_a_usual_setting_is_one_however_it_is_written(main: Main, text: str) -> None:
    """Git's own reading counts: a line that goes on holds no other setting, and a comment is none."""
    _append(text)(main)
    assert "alias" not in main.git("config", "--list", "--name-only", "--local")
    assert not found(main)


def test_several_are_told_by_name_and_no_value(main: Main) -> None:
    """The PM reads where it was; a value may be a secret, or without end."""
    for number in range(20):
        main.git("config", f"alias.a{number:02}", "!echo sk-secret")
    told = main.bring().rescued
    assert "it holds the setting 'alias.a00', the setting 'alias.a01'" in told
    assert "a05" not in told
    assert "secret" not in told


def test_no_program_that_was_left_is_run(main: Main) -> None:
    """Not even for the look: the next main comes from origin, by a git that reads nothing of the old clone."""
    mark = main.agent.directory / "ran"
    _write("info/attributes", "* filter=x\n")(main)
    for key in ("filter.x.clean", "filter.x.smudge", "core.fsmonitor", "remote.origin.uploadpack"):
        main.git("config", key, f"touch {mark}; false")
    (main.path / "behaviour").write_text("changed")
    main.bring()
    assert main.is_right()
    assert not mark.exists()


def test_an_ordinary_life_leaves_nothing(main: Main) -> None:
    """Branches, upstreams, stashes, tags, conflicts, collections, identities and the runner's own link."""
    places = main.agent.places
    link_signals(Boot("0" * 32, "main", "0" * 40, "start", places.remote, "merge", places, limits()), str(main.path))
    for words in (
        "config user.email me@example.invalid",
        "checkout -q -b plan",
        "commit -q --allow-empty -m plan",
        "push -q -u origin plan",
        "checkout -q -b below idea --track",
        "branch --edit-description",
        "checkout -q main",
        "pull -q",
        "tag mine",
        "tag -a -m words snapshot/1",
        "notes add -m words",
        "bisect start HEAD HEAD",
        "bisect reset",
        "branch -q -D below",
        "merge -q --no-ff -m merged plan",
        "revert --no-edit -m 1 HEAD",
        "reset -q --hard origin/main",
        "fetch -q --prune --tags --force origin",
        "remote update",
        "gc -q",
        "repack -q -a -d",
        "commit-graph write --reachable",
        "multi-pack-index write",
        "fsck --lost-found",
        "config --replace-all remote.origin.url " + places.remote,
    ):
        as_the_agent(main, *words.split())
    (main.path / "behaviour").write_text("stashed")
    as_the_agent(main, "stash")
    assert "stash@{0}" in as_the_agent(main, "stash", "list"), "the control: these commands do work here"
    assert not found(main)
    in_the_middle_of_a_rebase(main)
    as_the_agent(main, "cherry-pick", "plan")
    (main.path / ".git/index.lock").touch()
    assert not found(main)
    main.git("config", "alias.st", "x")
    assert found(main) == {Tampering("the setting 'alias.st'", "x")}


@pytest.mark.parametrize(
    "name", ["plain", "with blanks", 'a"quote', "a#mark;too", "back\\slash", " edge ", "\u00e9\tb"]
)
def test_any_path_of_origin_is_known_again(tmp_path: Path, name: str) -> None:
    """A fresh clone is one, however git writes down where it came from; from elsewhere it is none."""
    origin, clone = tmp_path / name, tmp_path / "clone"
    subprocess.run(["git", "init", "-q", "--bare", origin], check=True)
    subprocess.run(["git", "clone", "-q", origin, clone], check=True, stderr=subprocess.DEVNULL)
    assert not tampering(f"{clone}/.git", str(origin))
    assert tampering(f"{clone}/.git", f"{origin}x") == {Tampering("the setting 'remote.origin.url'", str(origin))}


def test_what_another_git_writes_by_itself_is_not_left_by_anybody(main: Main) -> None:
    """What a fresh clone has as well is no reason to make one at each launch; what is left beside it is."""
    template = main.agent.directory / "template"
    (template / "hooks").mkdir(parents=True)
    (template / "hooks/post-checkout").touch()
    with open(main.agent.places.cell_git_config, "a") as file:
        file.write(f"[init]\n\ttemplateDir = {template}\n")
    (main.path / ".git/hooks/post-checkout").touch()
    before = os.stat(main.path).st_ino
    assert main.bring().rescued == ""
    assert os.stat(main.path).st_ino == before
    main.git("config", "alias.st", "x")
    assert "it holds the setting 'alias.st'," in main.bring().rescued
    assert os.stat(main.path).st_ino != before
