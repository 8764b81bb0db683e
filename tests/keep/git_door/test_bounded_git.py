"""Git calls end in time, with all that they started, and say no more than there is room for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.keep.git_door.push import LIMITS
from infra.shared.repository.git import Git, GitError, TooMuch
from tests.keep.git_door.world import World, until


def bounded(world: World, seconds: float = 60.0) -> Git:
    return Git(world.places.remote, env={"GIT_DIR": world.places.remote}, limits=LIMITS).within(seconds)


def test_it_answers_like_any_git(world: World) -> None:
    """Large questions and answers pass, failures carry what git said, and yes and no are told apart."""
    git = bounded(world)
    question = f"info {world.main}\n" * 20_000
    assert git.raw("cat-file", "--batch-command", stdin=question.encode()).count(b"\n") == 20_000
    assert git.ok("merge-base", "--is-ancestor", str(world.main), "main")
    with pytest.raises(GitError, match=r"ended with 128: fatal: .*nothing") as failed:
        git("cat-file", "blob", "nothing")
    assert failed.value.status == 128
    assert failed.value.words == ("cat-file", "blob", "nothing")


def test_an_answer_without_end_is_cut_off(world: World) -> None:
    """One byte too many is too many."""
    blob = world.pm.git("--git-dir", world.places.remote, "hash-object", "-w", "--stdin", stdin="x" * 1_000_000)
    times = LIMITS.answer_bytes // 1_000_000
    question = f"contents {blob}\n".encode()
    assert len(bounded(world).raw("cat-file", "--batch-command", stdin=question * times)) > times * 1_000_000
    with pytest.raises(TooMuch):
        bounded(world).raw("cat-file", "--batch-command", stdin=question * (times + 2))


@pytest.mark.parametrize("command", ["echo $$ >{}; exec sleep 100", "echo $$ >{}; exec sleep 100 >/dev/null"])
def test_a_call_that_hangs_is_ended(world: World, command: str) -> None:
    """At the deadline git is ended, and whatever it had started."""
    pid_file = world.root / "pid"
    git = bounded(world, seconds=2.0)

    with pytest.raises(GitError, match="ran out of time: stopped after") as late:
        git("-c", f"alias.hang=!{command.format(pid_file)}", "hang")

    assert late.value.status is None
    pid = pid_file.read_text().strip()
    assert until(lambda: not os.path.exists(f"/proc/{pid}") or "Z" in _state(pid))
    with pytest.raises(GitError, match="the time for all calls is used up"):
        git("--version")


def _state(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def test_a_git_that_cannot_be_started_is_a_failure_of_git(world: World) -> None:
    """A directory that is gone is reported like a call that failed."""
    git = Git(f"{world.root}/gone", limits=LIMITS).within(60)
    with pytest.raises(GitError, match="cannot be started in"):
        git("--version")
