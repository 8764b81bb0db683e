"""`bootstrap` and `rollback` leave a signal only for what is there, committed and pushed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.tools.hop import hop_tools
from infra.cell.tools.tool import Toolbox
from infra.shared.boot import Boot, Limits
from infra.shared.paths import Paths
from infra.shared.people import AGENT
from infra.shared.repository.git import Git

TEMPLATES_REMOTE = "/the/remote/of/the/template"
"""Where the template's clones have their remote; each copy of them has its own."""
LIMITS = Limits(5, 1000, 5, 5, 5, 600, 1, 100_000)


class Clones:
    """A bare repository, the running checkout, and a clone of the branch `hop` that is ready to be started."""

    def __init__(self, root: str) -> None:
        self.places = Paths(bot=f"{root}/bot", remote=f"{root}/remote.git", run=f"{root}/run", var=f"{root}/var")
        self.main = Git(self.places.main_checkout, AGENT)
        self.hop = Git(self.places.checkout("hop"), AGENT)

        self.unfit = ""
        """What the preflight says."""

    def make(self) -> None:
        git = Git(os.path.dirname(self.places.bot), AGENT)
        git("init", "--quiet", "--template=", "--bare", "remote.git")
        git("clone", "--quiet", "--template=", "remote.git", self.places.main_checkout)
        for number in range(3):
            self.commit(self.main, "main", f"change {number}")
        git("clone", "--quiet", "--template=", "remote.git", self.hop.directory)
        self.hop("checkout", "--quiet", "-b", "hop")
        self.commit(self.hop, "hop", "a hop")
        for clone in (self.main, self.hop):
            clone("remote", "set-url", "origin", TEMPLATES_REMOTE)

    def adopt(self) -> None:
        """Made by copying: the clones' origin is the copied repository."""
        for git in (self.main, self.hop):
            settings = Path(git.directory, ".git/config")
            settings.write_text(settings.read_text().replace(TEMPLATES_REMOTE, self.places.remote))
        self.commits = self.main("rev-list", "--reverse", "HEAD").split()
        self.tip = self.hop("rev-parse", "HEAD")

    def commit(self, git: Git, branch: str, words: str, push: bool = True) -> str:
        os.makedirs(f"{git.directory}/infra", exist_ok=True)
        Path(git.directory, "infra/version.py").write_text(f"WORDS = {words!r}\n")
        Path(git.directory, ".gitignore").write_text("__pycache__/\nlogs/\n")
        git("add", "--all")
        git("commit", "--quiet", "--message", words)
        if push:
            git("push", "--quiet", "origin", f"HEAD:refs/heads/{branch}")
        return git("rev-parse", "HEAD")

    def change(self, script: str) -> None:
        """In the clone of `hop`."""
        people = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        subprocess.run(["bash", "-ec", script], cwd=self.hop.directory, check=True, env=os.environ | people)

    def call(self, name: str, input: dict[str, Any], **boot: Any) -> ToolResult:
        value = Boot("0" * 32, "main", self.tip, "start", self.places.remote, "merge", self.places, LIMITS)
        box = Toolbox(hop_tools(msgspec.structs.replace(value, **boot), self.main, lambda: self.unfit))
        return box.call(ToolCall("call", name, input))

    def bootstrap(self, target: str, **boot: Any) -> ToolResult:
        return self.call("bootstrap", {"branch": target}, **boot)

    def rollback(self, ref: str, **boot: Any) -> ToolResult:
        return self.call("rollback", {"ref": ref}, **boot)

    def signal(self, name: str) -> str | None:
        path = Path(self.places.signals, name)
        return path.read_text() if path.exists() else None


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("clones")
    Clones(str(root)).make()
    return root


@pytest.fixture
def clones(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clones:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")  # settings of whoever runs the tests stay out
    shutil.copytree(template, tmp_path, symlinks=True, dirs_exist_ok=True)
    made = Clones(str(tmp_path))
    made.adopt()
    return made


def refused(clones: Clones, reply: ToolResult, *words: str) -> None:
    assert not reply.ok
    for word in words:
        assert word in reply.payload
    assert not reply.hands_over
    assert clones.signal("bootstrap") is clones.signal("rollback") is None


def test_a_branch_that_is_ready_is_signalled(clones: Clones) -> None:
    """Committed, pushed, its clone at the tip: the signal is there, and the run ends."""
    reply = clones.bootstrap("hop")
    assert (reply.ok, reply.hands_over, clones.tip[:12] in reply.payload) == (True, True, True)
    assert clones.signal("bootstrap") == "hop\n"


HOLDS_BACK = (
    ("echo half done >infra/version.py", "uncommitted work (infra/version.py)"),
    ("git commit -q --allow-empty -m later", "make them the same first: git pull --rebase && git push origin hop"),
    ("rm -rf ../minifram", "make one: git clone -b hop"),
    ("git checkout -q --detach", "is on no branch; expected hop"),
)
MORE = (
    ("touch new.py", "uncommitted work (new.py)"),
    ("git reset -q --hard HEAD~1", "but origin's hop is at"),
    ("rm -rf .git", "is no clone"),
    ("git checkout -q -b other", "is on other; expected hop"),
    ("echo garbage >.git/HEAD", ""),
    ("printf 'f%.0s' $(seq 40) >.git/HEAD", ""),
    ("echo garbage >.git/index", ""),
)


@pytest.mark.parametrize(
    ("damage", "words"), [*HOLDS_BACK, *(pytest.param(*each, marks=pytest.mark.heavy) for each in MORE)]
)
def test_a_clone_that_is_not_what_was_pushed_is_refused(clones: Clones, damage: str, words: str) -> None:
    """What would be lost, or would not be what runs, is named, with what to do."""
    clones.change(damage)
    refused(clones, clones.bootstrap("hop"), words)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "change",
    [
        "mkdir logs && echo x >logs/errors.log",
        "echo 'def (:' >infra/broken.py && git add . && git commit -qm broken && git push -q origin hop",
    ],
)
def test_what_holds_no_branch_back(clones: Clones, change: str) -> None:
    """What its .gitignore names, and code that cannot start, as the watcher sees."""
    clones.change(change)
    assert clones.bootstrap("hop").hands_over


def test_a_name_that_may_not_be_started_is_refused(clones: Clones) -> None:
    """Before it comes near a command line or a path; main is asked for from a branch, and only from there."""
    for name in ("", "-b", "../main", "a b", "refs/heads/hop", "mind", "x" * 300, "HEAD"):
        refused(clones, clones.bootstrap(name))
    refused(clones, clones.bootstrap("nowhere"), "origin has no branch 'nowhere'", "git push origin nowhere")
    refused(clones, clones.bootstrap("main"), "is the running branch")
    assert clones.bootstrap("main", branch="hop").hands_over
    assert clones.signal("bootstrap") == "main\n"


def test_a_disk_that_refuses_the_signal_is_told(clones: Clones) -> None:
    """The run goes on, and the model can try again."""
    Path(clones.places.signals).write_text("a file where the directory should be")
    reply = clones.bootstrap("hop")
    assert (reply.ok, reply.hands_over) == (False, False)


def test_a_pushed_commit_is_rolled_back_to_by_whatever_name(clones: Clones) -> None:
    """The signal holds the commit itself, since names move while it waits."""
    wanted = clones.commits[1]
    clones.main("tag", "good", wanted)
    clones.main("push", "--quiet", "origin", "good")

    for ref in ("main~1", "origin/main~1", "main^", wanted, wanted[:8], "good"):
        assert clones.rollback(ref).hands_over, ref
        assert clones.signal("rollback") == f"{wanted}\n"
        os.unlink(f"{clones.places.signals}/rollback")


@pytest.mark.heavy
def test_a_name_is_looked_up_on_origin(clones: Clones) -> None:
    """A local main that lags behind does not decide what main~1 is."""
    clones.main("reset", "--quiet", "--hard", "HEAD~2")
    clones.rollback("main~1")
    assert clones.signal("rollback") == f"{clones.commits[1]}\n"


def test_what_main_cannot_be_rolled_back_to_is_refused(clones: Clones) -> None:
    """What names no commit, or one that was never pushed; and where the agent may not move main, it is the PM's."""
    for ref in ("", "--all", "main:infra", "main..hop", "nowhere", "main~99", "f" * 40, "@{-1}"):
        refused(clones, clones.rollback(ref))
    commit = clones.commit(clones.main, "main", "only here", push=False)
    refused(clones, clones.rollback(commit), "on no branch of origin")
    for autonomy in ("propose", "frozen"):
        refused(clones, clones.rollback("main~1", autonomy=autonomy), f"autonomy is {autonomy}", "PM")


def test_an_unfit_agent_starts_no_other_version(clones: Clones) -> None:
    """The preflight's words reach the model, and no signal is written; a rollback is the way out, and goes on."""
    clones.unfit = "preflight: the agent cannot write events"
    refused = clones.bootstrap("hop")
    assert "cannot write events; nothing was started" in refused.payload
    assert not os.path.exists(f"{clones.places.signals}/bootstrap")
    assert clones.call("rollback", {"ref": clones.commits[0]}).ok
