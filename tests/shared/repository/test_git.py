"""One call of git: it ends in time with all that it started, and nothing around it decides what it does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from infra.shared.people import AGENT
from infra.shared.repository.git import Git, GitError, GitLimits, resolve_commit
from tests.cell.loop.waiting import gone, wait_for
from tests.shared.repository.history import bare_repository, commit, plain


def hanging(pid_file: Path, how: str = "sleep 60 & echo $!") -> tuple[str, ...]:
    """A git command that starts a process of its own, writes down its pid, and stays."""
    return "-c", f"alias.hang=!{{ {how}; }} > {pid_file}.new; mv {pid_file}.new {pid_file}; sleep 60", "hang"


def test_output_comes_without_its_last_newline(tmp_path: Path) -> None:
    """Text without one newline, bytes as they are, input as given."""
    git = bare_repository(tmp_path / "r")
    id = git("hash-object", "-w", "--stdin", stdin=b"\xff\n\n")
    assert len(id) == 40
    assert git("cat-file", "blob", id) == "\ufffd\n"
    assert git.raw("cat-file", "blob", id) == b"\xff\n\n"
    large = bytes(range(256)) * 4096
    assert git.raw("cat-file", "blob", git("hash-object", "-w", "--stdin", stdin=large)) == large
    assert git("version", stdin=large).startswith("git version")


def test_a_failure_carries_what_git_said(tmp_path: Path) -> None:
    """Words, status, both outputs; the text is for people."""
    git = bare_repository(tmp_path / "r")
    with pytest.raises(
        GitError, match="git rev-parse --verify nope ended with 128: fatal: Needed a single revision"
    ) as failed:
        git("rev-parse", "--verify", "nope")
    assert (failed.value.words, failed.value.status) == (("rev-parse", "--verify", "nope"), 128)
    assert failed.value.stderr.startswith("fatal: ")


def test_yes_and_no_are_told_from_trouble(tmp_path: Path) -> None:
    """0 is yes, 1 is no, anything else is an error."""
    git = bare_repository(tmp_path / "r")
    first = commit(git, {"a": "1"})
    second = commit(git, {"a": "2"}, first)
    assert git.ok("merge-base", "--is-ancestor", first, second)
    assert not git.ok("merge-base", "--is-ancestor", second, first)
    with pytest.raises(GitError):
        git.ok("merge-base", "--is-ancestor", first, "0" * 40)


@pytest.mark.fault("F49")
@pytest.mark.parametrize("directory", ["missing", "file"])
def test_git_that_cannot_start_is_a_git_error(tmp_path: Path, directory: str) -> None:
    """A directory that is gone, or a PATH without git, is trouble like any other."""
    (tmp_path / "file").write_text("")
    with pytest.raises(GitError, match=f"cannot be started in {tmp_path}/{directory}"):
        Git(str(tmp_path / directory))("version")
    with pytest.raises(GitError, match="No such file") as failed:
        Git(str(tmp_path), env={"PATH": str(tmp_path)})("version")
    assert failed.value.status == 127
    assert Git(str(tmp_path))("version")


@pytest.mark.parametrize("word", ["a\0b", "\ud800", "x" * (1 << 20)])
def test_a_word_that_no_program_can_be_given_is_a_git_error(tmp_path: Path, word: str) -> None:
    """It may stand in a file that the agent wrote."""
    with pytest.raises(GitError, match="cannot be started"):
        Git(str(tmp_path))("rev-parse", word)


def time_out(directory: Path, how: str = "sleep 60 & echo $!") -> tuple[GitError, int]:
    """The error of a git call that hangs, and the pid of what it started."""
    for seconds in (0.3, 3.0, 30.0):  # a busy machine may need more until that process is there
        with pytest.raises(GitError, match=f"ran out of time: stopped after {seconds:g} s") as failed:
            Git(str(directory))(*hanging(directory / "pid", how), timeout=seconds)
        if (directory / "pid").exists():
            break
    return failed.value, int((directory / "pid").read_text())


@pytest.mark.fault("F49")
def test_time_runs_out_for_the_whole_group(tmp_path: Path) -> None:
    """Git and what it started are ended, and the error says that it was time."""
    error, pid = time_out(tmp_path)
    assert error.status is None
    wait_for(lambda: gone(pid), "the end of git's child", 30.0)


def test_calls_can_share_their_time(tmp_path: Path) -> None:
    """Many calls of which none is slow can be too much as well; whoever looks again takes new time."""
    git = bare_repository(tmp_path / "r")
    late = git.within(0.0)
    with pytest.raises(GitError, match="not started, the time for all calls is used up") as failed:
        late("version")
    assert failed.value.status is None
    for still_late in (late.within(60.0), late.with_env(A="1")):
        with pytest.raises(GitError, match="is used up"):
            still_late("version")
    assert late.afresh(60.0)("version")
    assert git("version"), "the one that it was made from knows nothing of it"
    with pytest.raises(GitError, match=r"ran out of time: stopped after 0\.[0-9]+ s"):
        git.within(0.5)(*hanging(tmp_path / "pid"))


@pytest.mark.fault("F49")
def test_an_answer_has_an_end(tmp_path: Path) -> None:
    """What says too much, or complains too much, is stopped; the error says which and how much it may."""
    blob = bare_repository(tmp_path / "r")("hash-object", "-w", "--stdin", stdin=b"x" * (2 << 20))
    at_most = {most: Git(str(tmp_path / "r"), limits=GitLimits(answer_bytes=most << 20)) for most in (1, 3)}
    assert len(at_most[3]("cat-file", "blob", blob)) == 2 << 20
    with pytest.raises(GitError, match=f"git cat-file blob {blob} had over 1 MiB to say: stopped there") as failed:
        at_most[1]("cat-file", "blob", blob)
    assert failed.value.status is None
    with pytest.raises(GitError, match="had over 1 MiB to say"):
        at_most[1]("-c", "alias.x=!head -c 2000000 /dev/zero >&2", "x")


@pytest.mark.heavy
def test_memory_has_an_end(tmp_path: Path) -> None:
    """Git that wants more than it may have says so and is gone."""
    git = bare_repository(tmp_path / "r")
    little = Git(git.directory, limits=GitLimits(memory_bytes=40 << 20))
    blobs = [git("hash-object", "-w", "--stdin", stdin=letter * (24 << 20)) for letter in (b"x", b"y")]
    assert git("diff", *blobs)
    assert little("cat-file", "-s", blobs[0]) == str(24 << 20)
    with pytest.raises(GitError, match="ut of memory"):
        little("diff", *blobs)


def test_nobody_waits_for_a_child_that_left_the_group(tmp_path: Path) -> None:
    """A process in a session of its own may keep git's output open; the call ends all the same."""
    _, pid = time_out(tmp_path, "setsid sleep 90 >&2 & echo $!")
    assert not gone(pid)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.heavy
def test_an_interrupted_caller_leaves_no_git_behind(tmp_path: Path) -> None:
    """Git runs in a session of its own, so Ctrl-C does not reach it; the caller ends it on the way out."""
    script = "import sys; from infra.shared.repository.git import Git; Git(sys.argv[1])(*sys.argv[2:])"
    caller = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path, *hanging(tmp_path / "pid")], stderr=subprocess.DEVNULL
    )
    wait_for((tmp_path / "pid").exists, "git's child", 30.0)
    pid = int((tmp_path / "pid").read_text())
    assert not gone(pid)
    caller.send_signal(signal.SIGINT)
    assert caller.wait(30) != 0
    wait_for(lambda: gone(pid), "the end of git's child", 30.0)


SHOW = """
import sys
from infra.shared.people import AGENT
from infra.shared.repository.git import Git
git = Git(sys.argv[1], AGENT)
print(git("rev-parse", "--absolute-git-dir"))
print(git("config", "--get-all", "core.hooksPath"))
print(git("config", "--default", "none", "user.signingKey"))
tree = git("mktree", stdin=b"")
print(git("log", "-1", "--format=%an %ae %cn %ce", git("commit-tree", tree, stdin=b"m")))
"""


@pytest.mark.heavy
def test_the_caller_s_environment_has_no_effect(tmp_path: Path) -> None:
    """Whatever GIT_… is set around us: our directory, our settings, our person, our language."""
    own, other = bare_repository(tmp_path / "own"), bare_repository(tmp_path / "other")
    (tmp_path / "config").write_text("[user]\n\tsigningKey = theirs\n[core]\n\thooksPath = /theirs\n")
    hostile = {
        "GIT_DIR": other.directory,
        "GIT_WORK_TREE": str(tmp_path),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_OBJECT_DIRECTORY": f"{other.directory}/objects",
        "GIT_NAMESPACE": "theirs",
        "GIT_CONFIG": str(tmp_path / "config"),
        "GIT_CONFIG_GLOBAL": str(tmp_path / "config"),
        "GIT_CONFIG_SYSTEM": str(tmp_path / "config"),
        "GIT_CONFIG_PARAMETERS": "'core.hooksPath'='/theirs'",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.hooksPath",
        "GIT_CONFIG_VALUE_0": "/theirs",
        "GIT_CONFIG_KEY_99": "user.signingKey",
        "GIT_CONFIG_VALUE_99": "theirs",
        "GIT_AUTHOR_NAME": "Theirs",
        "GIT_COMMITTER_EMAIL": "theirs@example.invalid",
        "GIT_TRACE": str(tmp_path / "trace"),
        "XDG_CONFIG_HOME": str(tmp_path),
        "LC_ALL": "de_DE.UTF-8",
    }
    said = subprocess.run(
        [sys.executable, "-c", SHOW, own.directory],
        env=os.environ | hostile,
        capture_output=True,
        text=True,
        check=True,
    )
    us = f"{AGENT.name} {AGENT.email}"
    assert said.stdout.splitlines() == [own.directory, "/dev/null", "none", f"{us} {us}"]
    assert not (tmp_path / "trace").exists()
    # The control: git itself goes by all that.
    assert plain(own.directory, "rev-parse", "--absolute-git-dir", **hostile).stdout.strip() == other.directory
    assert "/theirs" in plain(own.directory, "config", "--get-all", "core.hooksPath", **hostile).stdout
    assert (tmp_path / "trace").exists()


def test_a_directory_without_a_repository_does_not_lead_to_the_one_above(tmp_path: Path) -> None:
    """A clone that lost its .git must not make us work on whatever lies above it."""
    plain(tmp_path, "init", "--quiet")
    (tmp_path / "inside").mkdir()
    with pytest.raises(GitError, match="not a git repository"):
        Git(str(tmp_path / "inside"))("rev-parse", "--git-dir")
    assert plain(tmp_path / "inside", "rev-parse", "--git-dir").stdout.strip() == f"{tmp_path}/.git"
    assert Git(str(tmp_path))("rev-parse", "--git-dir") == ".git"


def test_what_is_added_to_the_environment_wins(tmp_path: Path) -> None:
    """A caller who means another global configuration, or another index, says so."""
    (tmp_path / "config").write_text("[user]\n\tsigningKey = ours\n")
    git = Git(str(tmp_path), AGENT, {"GIT_CONFIG_GLOBAL": str(tmp_path / "config")})
    assert git("config", "user.signingKey") == "ours"
    assert git.with_env(GIT_CONFIG_GLOBAL="/dev/null")("config", "--default", "none", "user.signingKey") == "none"
    assert git("config", "user.signingKey") == "ours"


def test_what_names_a_commit_is_resolved(tmp_path: Path) -> None:
    """Branch, tag, ancestor, short and full sha; None for what is there and no commit, or not there at all."""
    git = bare_repository(tmp_path / "r")
    first = commit(git, {"a": "1"})
    second = commit(git, {"a": "2"}, first)
    plain(git.directory, "tag", "light", first)
    plain(git.directory, "tag", "-m", "m", "heavy", first)
    plain(git.directory, "tag", "blob", f"{first}:a")
    for ref in ("main~1", "light", "heavy", first, first[:10], "main^", "refs/tags/heavy"):
        assert resolve_commit(git, ref) == first, ref
    assert resolve_commit(git, "main") == second
    blob = plain(git.directory, "rev-parse", f"{first}:a").stdout.strip()
    for ref in ("nope", "main~2", "main^2", "main~99999999999999999999", "0" * 40, blob, "blob", "--all", "main:a", ""):
        assert resolve_commit(git, ref) is None, ref


def test_a_damaged_repository_is_an_error_not_an_absence(tmp_path: Path) -> None:
    """Whoever asks for a commit must not hear "there is none" when nobody can tell."""
    git = bare_repository(tmp_path / "r")
    commit(git, {"a": "1"})
    assert resolve_commit(git, "nope") is None
    os.rename(f"{git.directory}/HEAD", f"{git.directory}/HEAD.gone")
    with pytest.raises(GitError, match="not a git repository"):
        resolve_commit(git, "main")
