"""`minifram doctor`: what is wrong, and what is not."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from pathlib import Path

import pytest

from host.doctor import AGENT, MACHINE
from infra.keep.settings.models import KEYS
from tests.host.desk import Desk

NOW = 1769856132.0


def test_a_healthy_agent_has_no_findings(desk: Desk) -> None:
    """The positive control: one line says how many checks there were."""
    ended = desk.run("doctor")

    assert ended.code == 0, ended
    assert ended.out == f"{len(MACHINE) + len(AGENT)} checks found nothing\n"

    found = desk.done("doctor", "--json").json
    assert found.pop("schema") == "minifram.doctor/1"
    assert found == {"agent": "agent", "initialised": True, "checks": len(MACHINE) + len(AGENT), "findings": []}


def test_before_init_the_machine_is_checked_and_4_says_that_there_is_no_agent(bare_desk: Desk) -> None:
    """A first question that helps before anything was made."""
    ended = bare_desk.run("doctor")

    assert ended.code == 4
    assert f"{len(MACHINE)} checks found nothing" in ended.out
    assert "'minifram init' makes it" in ended.err


def _writes(place: str, text: str, desk: Desk) -> None:
    Path(attrgetter(place)(desk.home())).write_text(text)


def _settings(text: str) -> Callable[[Desk], None]:
    return partial(_writes, "settings", text)


def _git(words: str, desk: Desk) -> None:
    desk.git()(*words.split())


def _key(mode: int, desk: Desk) -> None:
    path = Path(desk.home().key_file(KEYS[0]))
    path.parent.mkdir(mode=0o700)
    path.write_text("sk-secret")
    path.chmod(mode)


SCRIPT = "model: {provider: scripted, name: x.yaml}"


@pytest.mark.parametrize(
    ("spoil", "check", "words"),
    [
        (_settings("sandbox: podman\nmodel: {provider: ollama}"), "model", "a private address, which"),
        (_settings(f"sandbox: podman\n{SCRIPT}"), "model", "not in the sealed container"),
        (_settings(f"sandbox: process\n{SCRIPT}"), "model", "expected a file, found none at"),
        (partial(_git, "config core.bare false"), "repository", "/config is not what 'minifram init' wrote"),
        (partial(_git, "update-ref -d refs/heads/main"), "repository", "no branch main"),
        (lambda desk: os.chmod(desk.home().remote, 0o770), "repository", "0770"),
        (partial(_key, 0o644), "keys", "0644"),
        (partial(_key, 0o600), "keys", "the agent is down"),
        (_settings("sandbx: 1\n"), "settings", "sandbx"),
        (
            partial(_writes, "places.watcher_state", '{"phase": "running", "since": [1.0, 1769856132.0]}'),
            "watcher",
            "in phase 'running'",
        ),
        (_settings("sandbox: process\negress: {mode: door}\n"), "settings", "which nothing enforces"),
        (_settings("sandbox: process\nweb: {browser: on}\n"), "settings", "reaches your files"),
        (lambda desk: os.mkfifo(desk.home().places.ledger), "ledger", "not a regular file"),
        (
            lambda desk: desk.puts_mind({"logs/health/sandbox.json": '{"at": "2026", "problems": ["uid 0"]}'}),
            "mind",
            "sandbox, seen at 2026: uid 0",
        ),
    ],
)
def test_each_thing_that_is_wrong_is_a_finding(
    desk: Desk, spoil: Callable[[Desk], object], check: str, words: str
) -> None:
    """8, and a line that names the thing and what to do."""
    spoil(desk)

    ended = desk.run("doctor", "--json")

    assert ended.code == 8, ended
    found = ended.json["findings"]
    assert [each for each in found if each["check"] == check and words in each["text"]], found
    assert "sk-secret" not in ended.out


def test_a_bad_file_of_the_mind_hides_no_other(desk: Desk) -> None:
    bad = {
        "logs/health/sandbox.json": "{",
        "memory/beliefs.md": "# Beliefs\n\n## B-000001\nClaim: x\nConfidence: 7\n",
        "skills/candidates/x/SKILL.md": "<<<<<<< HEAD\n",
    }
    desk.puts_mind(bad)
    found = [each["text"] for each in desk.run("doctor", "--json").json["findings"] if each["check"] == "mind"]
    for path, words, text in zip(bad, ("truncated", "", ":1: expected fields"), found, strict=True):
        assert path in text
        assert words in text


def test_an_old_git_is_found(desk: Desk) -> None:
    """Merging without a work tree needs 2.38."""
    old = desk.root / "bin"
    old.mkdir()
    (old / "git").write_text('#!/bin/sh\n[ $1 != version ] || exec echo git version 2.30.2\nexec /usr/bin/git "$@"\n')
    (old / "git").chmod(0o755)
    assert "2.30.2" in desk.call("doctor", PATH=f"{old}:{os.environ['PATH']}").out


def test_without_git_every_verb_says_so(desk: Desk) -> None:
    """A foreseeable trouble, not a traceback."""
    empty = desk.root / "empty"
    empty.mkdir()

    ended = desk.call("review", PATH=str(empty))

    assert ended.code == 1
    assert "git is not installed" in ended.err
    assert desk.call("doctor", PATH=str(empty)).code == 8
