"""`minifram doctor`: what is wrong, and what is not."""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.shared.providers import KEYS
from infra.shared.sockets import listen
from tests.host.desk import Desk, Ended


@pytest.fixture
def desk(desk: Desk) -> Desk:
    """A healthy desk: its lock names the packages that are really there."""
    version = importlib.metadata.version("click")
    (desk.project / "requirements.lock").write_text(f"click=={version} \\\n    --hash=sha256:00\n")
    return desk


def test_a_healthy_agent_has_no_findings(desk: Desk) -> None:
    """The positive control: every check says ok, or a note."""
    ended = desk.run("doctor")

    assert ended.code == 0, ended
    assert {line.split()[0] for line in ended.out.splitlines()} == {"ok", "note"}
    assert "nothing found" in ended.err

    found = desk.done("doctor", "--json").json
    assert found.keys() == {"schema", "agent", "initialised", "results", "findings"}
    assert found["schema"] == "minifram.doctor/1"
    assert found["findings"] == 0
    checks = {result["check"] for result in found["results"]}
    assert {"python", "git", "packages", "settings", "repository", "disk", "sockets", "podman", "watcher"} <= checks


def test_before_init_the_machine_is_checked_and_4_says_that_there_is_no_agent(bare_desk: Desk) -> None:
    """A first question that helps before anything was made."""
    version = importlib.metadata.version("click")
    (bare_desk.project / "requirements.lock").write_text(f"click=={version}\n")

    ended = bare_desk.run("doctor")

    assert ended.code == 4
    assert "python" in ended.out
    assert "minifram init" in ended.out


def _config(key: str, value: str) -> Callable[[Desk], None]:
    def spoil(desk: Desk) -> None:
        subprocess.run(["git", "config", "--file", f"{desk.home().remote}/config", key, value], check=True)

    return spoil


def _plant(name: str) -> Callable[[Desk], None]:
    def spoil(desk: Desk) -> None:
        path = Path(desk.home().remote, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("/elsewhere\n")

    return spoil


def _link_objects(desk: Desk) -> None:
    path = Path(desk.home().remote, "objects")
    path.rename(desk.root / "objects")
    path.symlink_to(desk.root / "objects")


def _link_ref(desk: Desk) -> None:
    Path(desk.home().remote, "refs", "heads", "evil").symlink_to("/etc/passwd")


def _replace(desk: Desk) -> None:
    commit = desk.branch("other", {"a": "1"})
    desk.git()("update-ref", f"refs/replace/{desk.main()}", commit)


def _mode(which: str, mode: int) -> Callable[[Desk], None]:
    def spoil(desk: Desk) -> None:
        os.chmod(getattr(desk.home(), which), mode)

    return spoil


def _key(mode: int) -> Callable[[Desk], None]:
    def spoil(desk: Desk) -> None:
        path = Path(desk.home().key_file(KEYS[0]))
        path.parent.mkdir(mode=0o700)
        path.write_text("sk-secret")
        path.chmod(mode)

    return spoil


def _settings(text: str) -> Callable[[Desk], None]:
    def spoil(desk: Desk) -> None:
        Path(desk.home().settings).write_text(text)

    return spoil


def _lock_file(text: str) -> Callable[[Desk], None]:
    def spoil(desk: Desk) -> None:
        (desk.project / "requirements.lock").write_text(text)

    return spoil


def _stale_watcher(desk: Desk) -> None:
    path = Path(desk.home().places.watcher_state)
    path.write_text('{"schema": "minifram.watcher/1", "phase": "running"}')


def _plain_file_for_a_door(desk: Desk) -> None:
    Path(desk.home().places.git_socket).touch()


def _no_main(desk: Desk) -> None:
    desk.git()("update-ref", "-d", "refs/heads/main")


@pytest.mark.parametrize(
    ("spoil", "check", "words"),
    [
        (_settings("sandbox: podman\nmodel: {provider: ollama}\n"), "model", "a private address, which the sealed"),
        (_settings("sandbox: podman\nmodel: {script: /pm/x.yaml}\n"), "model", "not in the sealed container"),
        (_settings("sandbox: process\nmodel: {script: x.yaml}\n"), "model", "expected a file, found none at"),
        (_config("core.sshCommand", "evil"), "configuration", "core.sshcommand"),
        (_config("include.path", "/evil"), "configuration", "include.path"),
        (_config("receive.denyDeletes", "false"), "configuration", "receive.denyDeletes"),
        (_config("user.name", "somebody"), "configuration", "user.name"),
        (_config("core.bare", "false"), "repository", "not a bare repository"),
        (_config("minifram.agent", "other"), "repository", "'other'"),
        (_plant("hooks/post-receive"), "hooks", "hooks/post-receive"),
        (_plant("objects/info/alternates"), "planted", "alternates"),
        (_plant("info/attributes"), "planted", "drivers"),
        (_plant("info/grafts"), "planted", "history"),
        (_plant("config.worktree"), "planted", "second configuration"),
        (_plant("commondir"), "planted", "commondir"),
        (_link_objects, "planted", "objects"),
        (_link_ref, "planted", "refs/heads/evil"),
        (_replace, "repository", "replace refs"),
        (_no_main, "repository", "no branch main"),
        (_mode("remote", 0o755), "repository", "chmod 700"),
        (_mode("run", 0o777), "run directory", "0777"),
        (_mode("state", 0o750), "state directory", "0750"),
        (_key(0o644), "key", "0644"),
        (_key(0o600), "key", "the agent is down"),
        (_settings("sandbx: 1\n"), "settings", "sandbx"),
        (_lock_file("click==0.0.1\nnosuchpackage==1\n"), "packages", "nosuchpackage"),
        (_stale_watcher, "watcher", "died in phase 'running'"),
        (_plain_file_for_a_door, "git door", "is not a socket"),
    ],
)
def test_each_thing_that_is_wrong_is_a_finding(
    desk: Desk, spoil: Callable[[Desk], None], check: str, words: str
) -> None:
    """8, and a line that names the thing and what to do."""
    spoil(desk)

    ended = desk.run("doctor", "--json")

    assert ended.code == 8, ended
    found = [result for result in ended.json["results"] if result["level"] in ("warn", "fail")]
    assert ended.json["findings"] == len(found)
    assert [result for result in found if result["check"] == check and words in result["text"]], found
    assert "sk-secret" not in ended.out


def test_doors_are_asked(desk: Desk) -> None:
    """One that is missing or mute is found while the agent runs, and a stranger in its place while it does not."""
    places = desk.home().places
    with listen(places.model_socket):
        stranger = desk.run("doctor", "--json")
    [found] = _wrong_with(stranger, "model door")
    assert "another program listens" in found
    assert _wrong_with(desk.run("doctor", "--json"), "model door") == [], "a dead socket is in nobody's way"

    lock = os.open(places.watcher_lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.write(lock, f"{os.getpid()}\n".encode())
    try:
        ended = desk.run("doctor", "--json")
    finally:
        os.close(lock)
    for door in ("git door", "model door"):
        assert "nobody listens" in _wrong_with(ended, door)[0]


def _wrong_with(ended: Ended, check: str) -> list[str]:
    return [each["text"] for each in ended.json["results"] if each["check"] == check and each["level"] == "fail"]


def test_samples_and_pushes_are_no_findings(desk: Desk) -> None:
    """What git itself puts into a repository is not suspicious."""
    hooks = Path(desk.home().remote, "hooks")
    hooks.mkdir(exist_ok=True)
    (hooks / "update.sample").write_text("#!/bin/sh\n")
    desk.branch("improve", {"src/a.py": "1\n"})
    desk.git()("gc", "--quiet")
    desk.git()("pack-refs", "--all")

    assert desk.run("doctor").code == 0


def test_hooks_that_the_pm_s_git_looks_for_elsewhere_are_found(desk: Desk) -> None:
    """Then git runs neither of those that guard pushes by path."""
    (desk.root / "pm/.gitconfig").write_text("[core]\n\thooksPath = ~/.githooks\n")

    ended = desk.run("doctor")

    assert ended.code == 8
    assert "core.hooksPath in your own git configuration is '~/.githooks'" in ended.out


def test_an_old_git_is_found(desk: Desk) -> None:
    """Merging without a work tree needs 2.38."""
    old = desk.root / "bin"
    old.mkdir()
    (old / "git").write_text(
        '#!/bin/sh\nif [ $1 = version ]; then echo git version 2.30.2; else exec /usr/bin/git "$@"; fi\n'
    )
    (old / "git").chmod(0o755)

    ended = desk.call("doctor", PATH=f"{old}:{os.environ['PATH']}")

    assert ended.code == 8
    assert "2.30.2" in ended.out


def test_without_git_every_verb_says_so(desk: Desk) -> None:
    """A foreseeable trouble, not a traceback."""
    empty = desk.root / "empty"
    empty.mkdir()

    ended = desk.call("review", PATH=str(empty))

    assert ended.code == 1
    assert "git is not installed" in ended.err
    assert desk.call("doctor", PATH=str(empty)).code == 8
