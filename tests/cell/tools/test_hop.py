"""`bootstrap` and `rollback` leave a signal only for what is there, committed and pushed."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.tools.hop import hop_tools
from infra.cell.tools.tool import Toolbox
from infra.shared.people import AGENT
from infra.shared.repository.git import Git
from tests.cell.cell import Cell, read


@pytest.fixture
def hop(cell: Cell) -> Git:
    """The clone of the branch `hop`, which is ready to be started."""
    return cell.branch("hop", {"src/notes.md": "a hop\n"})


def call(cell: Cell, name: str, input: dict[str, Any], unfit: str = "", **boot: Any) -> ToolResult:
    """`unfit` is what the preflight says."""
    tools = hop_tools(cell.boot(**boot), Git(cell.checkout, AGENT), lambda: unfit)
    return Toolbox(tools).call(ToolCall("call", name, input))


def bootstrap(cell: Cell, target: str, **boot: Any) -> ToolResult:
    return call(cell, "bootstrap", {"branch": target}, **boot)


def rollback(cell: Cell, ref: str, **boot: Any) -> ToolResult:
    return call(cell, "rollback", {"ref": ref}, **boot)


def refused(cell: Cell, reply: ToolResult, *words: str) -> None:
    assert not reply.ok
    for word in words:
        assert word in reply.payload
    assert not reply.hands_over
    assert not any(os.path.exists(f"{cell.places.signals}/{name}") for name in ("bootstrap", "rollback"))


def test_a_branch_that_is_ready_is_signalled(cell: Cell, hop: Git) -> None:
    """Committed, pushed, its clone at the tip: the signal is there, and the run ends."""
    reply = bootstrap(cell, "hop")
    assert (reply.ok, reply.hands_over, hop("rev-parse", "HEAD")[:12] in reply.payload) == (True, True, True)
    assert cell.signal() == "hop"


HOLDS_BACK = (
    ("echo half done >src/notes.md", "uncommitted work (src/notes.md)"),
    ("git commit -q --allow-empty -m later", "make them the same first: git pull --rebase && git push origin hop"),
    ("rm -rf ../minifram", "make one: git clone -b hop"),
    ("git checkout -q --detach", "is on no branch; expected hop"),
)
MORE = (
    ("touch new.py", "uncommitted work (new.py)"),
    ("rm -rf .git", "is no clone"),
    ("git checkout -q -b other", "is on other; expected hop"),
    ("echo garbage >.git/HEAD", ""),
    ("echo garbage >.git/index", ""),
)


@pytest.mark.parametrize(
    ("damage", "words"), [*HOLDS_BACK, *(pytest.param(*each, marks=pytest.mark.heavy) for each in MORE)]
)
def test_a_clone_that_is_not_what_was_pushed_is_refused(cell: Cell, hop: Git, damage: str, words: str) -> None:
    """What would be lost, or would not be what runs, is named, with what to do."""
    subprocess.run(["sh", "-c", damage], cwd=hop.directory, env=cell.environment(), check=True)
    refused(cell, bootstrap(cell, "hop"), words)


@pytest.mark.usefixtures("hop")
def test_a_name_that_may_not_be_started_is_refused(cell: Cell) -> None:
    """Before it comes near a command line or a path; main is asked for from a branch, and only from there."""
    for name in ("", "-b", "../main", "a b", "refs/heads/hop", "mind", "x" * 300, "HEAD"):
        refused(cell, bootstrap(cell, name))
    refused(cell, bootstrap(cell, "nowhere"), "origin has no branch 'nowhere'", "git push origin nowhere")
    refused(cell, bootstrap(cell, "main"), "is the running branch")
    assert bootstrap(cell, "main", branch="hop").hands_over
    assert cell.signal() == "main"


def test_a_pushed_commit_is_rolled_back_to_by_whatever_name(cell: Cell) -> None:
    """The signal holds the commit itself, since names move while it waits. They are looked up on origin: a local main
    that lags behind does not decide what main~1 is."""
    wanted, _ = (cell.pm_changes({"src/notes.md": text}, text) for text in ("one", "two"))
    cell.bare("tag", "good", wanted)

    for ref in ("main~1", "origin/main~1", "main^", wanted, wanted[:8], "good"):
        assert rollback(cell, ref).hands_over, ref
        assert read(f"{cell.places.signals}/rollback") == f"{wanted}\n"
        os.unlink(f"{cell.places.signals}/rollback")


def test_what_main_cannot_be_rolled_back_to_is_refused(cell: Cell) -> None:
    """What names no commit, or one that was never pushed; and where the agent may not move main, it is the PM's."""
    cell.pm_changes({"src/notes.md": "one"}, "one")
    for ref in ("", "--all", "main:infra", "main..hop", "nowhere", "main~99", "f" * 40, "@{-1}"):
        refused(cell, rollback(cell, ref))
    git = Git(cell.checkout, AGENT)
    git("commit", "--quiet", "--allow-empty", "--message", "only here")
    refused(cell, rollback(cell, git("rev-parse", "HEAD")), "on no branch of origin")
    for autonomy in ("propose", "frozen"):
        refused(cell, rollback(cell, "main~1", autonomy=autonomy), f"autonomy is {autonomy}", "PM")


@pytest.mark.usefixtures("hop")
def test_an_unfit_agent_starts_no_other_version(cell: Cell) -> None:
    """The preflight's words reach the model, and no signal is written; a rollback is the way out, and goes on."""
    unfit = "preflight: the agent cannot write events"
    refused(cell, bootstrap(cell, "hop", unfit=unfit), "cannot write events; nothing was started")
    cell.pm_changes({"src/notes.md": "one"}, "one")
    assert rollback(cell, "main~1", unfit=unfit).ok
