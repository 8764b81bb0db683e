"""The real watcher with real processes, git and signal files; only the runner is a stand-in of a few lines."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from infra.keep.mind.snapshots import PRE_MODIFICATION, snapshots
from infra.keep.services import children, processes
from infra.keep.services.processes import is_alive
from infra.keep.watcher_file import Level
from infra.shared.boot import parse_line
from infra.shared.exit_codes import Exit
from infra.shared.mind.layout import IDENTITY
from infra.shared.paths import BOOT_LOG
from infra.shared.policy import Policy, Rule
from infra.shared.repository.git import EMPTY_TREE, Git
from infra.shared.repository.tip import commit_tree, tree_with, write_file
from infra.shared.signals import SignalName
from tests.keep.supervision.agents import PM, Agent, within

pytestmark = pytest.mark.heavy
MakeAgent = Callable[..., Agent]


@pytest.mark.fault("F10", "F16", "F59")
def test_main_is_launched_with_what_the_pm_set_and_ended_with_its_watcher(make_agent: MakeAgent) -> None:
    """Its output is in its error log, the policy in the value that starts it. It has its three standard descriptors and
    its heart, and when memory is short it goes first, with all that it started; the control: the watcher has more
    descriptors, and neither that nor its doors go first."""
    behaviour = (
        'print("to stdout", flush=True); print("to stderr", file=sys.stderr, flush=True)\n'
        'open("logs/given", "w").write(json.dumps(BOOT))\n'
        'open("logs/open", "w").write(" ".join(os.listdir("/proc/self/fd")))\n'
        'open("logs/child", "w").write(str(subprocess.Popen(["sleep", "1000"]).pid))\n'
        "serve()"
    )
    limits = "timing: {rehearse: false, grace_seconds: 1, boot_seconds: 20}\n"
    agent = make_agent(behaviour, f"{limits}policy: {{default: ask, rules: [{{do: deny, commands: ['rm *']}}]}}\n")
    watcher = agent.start()
    state, logs = agent.serving(), Path(agent.places.main_checkout, "logs")
    assert psutil.Process(state.active.pid).cwd() == agent.places.main_checkout
    assert state.active.commit == agent.git("rev-parse", "main")
    assert [boot.outcome for boot in state.boots] == ["success"]
    assert {"to stdout", "to stderr"} <= set((logs / "errors.log").read_text().splitlines())
    given = msgspec.convert(json.loads((logs / "given").read_text())["policy"], Policy)
    assert given == Policy("ask", rules=(Rule("deny", commands=("rm *",)),))

    # One more for looking, and one for what is written.
    found = (logs / "open").read_text().split()
    assert {"0", "1", "2"} < set(found)
    assert len(found) == 6 < len(os.listdir(f"/proc/{watcher.pid}/fd"))
    doors = [each.pid for each in psutil.Process(watcher.pid).children() if each.pid != state.active.pid]
    assert [_score(pid) for pid in (state.active.pid, int((logs / "child").read_text()))] == [1000, 1000]
    assert doors
    assert {_score(pid) for pid in (watcher.pid, *doors)} == {_score(os.getpid())} != {1000}
    assert agent.stop() == Exit.OK
    assert not is_alive(state.active.pid)
    assert agent.state().phase == "stopped"


def _score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def test_nothing_is_launched_before_the_seal_is_proved(make_agent: MakeAgent) -> None:
    """The PM reads why; no version is blamed, and it is tried again."""
    agent = make_agent()
    unsealed = Path(agent.places.bot, "unsealed")
    agent.settings.write_text(f"timing: {{rehearse: false, boot_seconds: 5, unsealed: '{unsealed}'}}\n")
    unsealed.parent.mkdir(parents=True)
    unsealed.touch()
    agent.start()
    assert "the seal does not hold (the rules are gone)" in agent.told("main failed (2 in a row)")
    assert "runner.launched" not in agent.log()
    unsealed.unlink()
    agent.serving("main")
    assert agent.state().pins == ()


# Hops and rollbacks.


def test_a_hop_leads_to_the_branch_and_leaves_a_snapshot_of_the_mind(make_agent: MakeAgent) -> None:
    """Main signals and exits; the signal file is gone, nothing counts as a failure, and the mind is kept as it was."""
    agent = make_agent('say("BOOTSTRAPPING"); say("SUCCESS"); ask("bootstrap", "better")')
    commit = agent.branch("better", "serve()")
    remote = Git(agent.places.remote)
    remote("update-ref", "refs/heads/mind", commit)
    agent.start()
    state = agent.serving("better")
    assert state.active.commit == commit
    assert [boot.outcome for boot in state.boots] == ["left", "success"]
    assert (os.listdir(agent.places.signals), state.troubles) == ([], ())
    made = [each for each in snapshots(remote) if each.kind == PRE_MODIFICATION]
    assert [(each.commit, each.reason) for each in made] == [(commit, "pre-modification: better")]


FAILURES = {
    "exits": ("raise SystemExit(3)", "ended before SUCCESS: exit status 3"),
    "segfault": ("os.kill(os.getpid(), 11)", "SIGSEGV"),
    "no-python": ("this is no python", "SyntaxError"),
    "raises": ('say("BOOTSTRAPPING"); say("SUCCESS"); raise RuntimeError("my last words")', "my last words"),
    "ends": ('say("BOOTSTRAPPING"); say("SUCCESS"); raise SystemExit(0)', "died after SUCCESS: exit status 0"),
}


@pytest.mark.fault("F03", "F50")
def test_a_branch_that_fails_gives_way_to_main(make_agent: MakeAgent) -> None:
    """Whatever ends a branch, main leads again within 5 s, and the PM reads why in COMMS.md and the log. The same
    version again is refused with the reason."""
    agent = make_agent()
    for name, (behaviour, _) in FAILURES.items():
        agent.branch(name, behaviour)
    agent.start()
    state = agent.serving()
    for name, (_, reason) in FAILURES.items():
        agent.ask(SignalName.BOOTSTRAP, name)
        state = agent.serving(but=state.active.boot_id, seconds=5.0)
        assert state.boots[-1].reason.startswith(f"fallback: {name}")
        assert (
            reason
            in agent.told(f"watcher: {name} failed, main is active again").partition(f"watcher: {name} failed")[2]
        )
        assert reason in agent.log()
        boot = state.boots[-2]
        assert (boot.branch, boot.outcome in ("died", "failed")) == (name, True)
        lines = Path(agent.places.checkout(name), BOOT_LOG).read_text().splitlines(keepends=True)
        ended = [line for text in lines if (line := parse_line(text)) and line.details.get("by") == "watcher"]
        word = "ENDED" if boot.outcome == "died" else "FAILED"
        assert [(line.word, line.commit, line.boot_id) for line in ended] == [(word, boot.commit, boot.boot_id)]
    launches = agent.log().count('"event": "runner.launched"')
    agent.ask(SignalName.BOOTSTRAP, "exits")
    agent.told("this version failed at")
    agent.serving("main", but=state.active.boot_id)
    assert agent.log().count('"event": "runner.launched"') == launches + 1, "main's"


def test_a_later_bootstrap_takes_the_place_of_a_preparation(make_agent: MakeAgent) -> None:
    """A rehearsal that hangs is broken off, and the later branch is prepared. What a rehearsal wrote goes with it, also
    when its watcher is killed."""
    agent = make_agent(settings="timing: {grace_seconds: 1, boot_seconds: 5, rehearsal_seconds: 60}\n")

    def scratch() -> str:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                words = dict(word.partition("=")[::2] for word in process.cmdline())
                if process.ppid() == watcher.pid and "--scratch" in words:
                    return words["--scratch"]
        return ""

    for name in ("slow", "later"):
        agent.branch(name, "time.sleep(600)")
    watcher = agent.start()
    agent.serving()
    agent.ask(SignalName.BOOTSTRAP, "slow")
    place = within(30.0, scratch, "the first rehearsal")
    Path(place, "mark").touch()
    agent.ask(SignalName.BOOTSTRAP, "later")
    within(30.0, lambda: agent.log().count('"preparation.began"') == 2 and scratch(), "the second rehearsal")
    state = agent.state()
    assert state.request
    assert state.request.target == "later"
    assert "bootstrap slow was dropped: bootstrap later is to be carried out" in state.troubles[-1].text
    assert not os.path.exists(f"{place}/mark")
    watcher.kill()
    watcher.wait()
    agent.start()
    within(30.0, lambda: not os.path.exists(place), "its leftovers to go")


@pytest.mark.fault("F20", "F65")
def test_a_rollback_makes_a_new_commit_with_the_old_tree(make_agent: MakeAgent) -> None:
    """History only grows, COMMS.md stays, main runs the old tree, the file is gone. A bootstrap that is asked for at
    the same time is dropped. Nothing of it needs a HOME or a directory for temporary files."""
    agent = make_agent()
    agent.branch("better", "serve()")
    old = agent.git("rev-parse", "main")
    (agent.clone / "new-file").write_text("new")
    (agent.clone / "COMMS.md").write_text("# COMMS\n\n## Directives\n\n- [ ] keep me\n\n## Reports\n")
    agent.commit("serve() # later")
    agent.git("push", "-q", "origin", "main")
    agent.start(before=["env", "-u", "HOME", "TMPDIR=/nonexistent"])
    first = agent.serving()
    agent.ask(SignalName.ROLLBACK, old[:12])
    agent.ask(SignalName.BOOTSTRAP, "better")
    agent.told(f"rolled back to {old[:12]}")
    state = agent.serving(but=first.active.boot_id)
    bare = Git(agent.places.remote)
    assert bare.ok("merge-base", "--is-ancestor", first.active.commit, "main")
    assert bare("diff", "--name-only", old, state.active.commit).split() == ["COMMS.md"]
    assert "keep me" in agent.comms()
    assert not os.path.exists(f"{agent.places.main_checkout}/new-file")
    assert all(boot.branch == "main" for boot in state.boots)


# Ends.


@pytest.mark.fault("F11", "F13")
def test_nobody_outlives_a_killed_watcher(make_agent: MakeAgent) -> None:
    """kill -9 of the watcher: its runner and its doors end with it, a stopped one too, so that the next watcher's find
    their sockets free; what had gone away from the runner ends at the next start, which carries out what was asked for
    meanwhile."""
    away = "print(subprocess.Popen(['sleep', '300'], start_new_session=True).pid, file=open('logs/away', 'w'))\nserve()"
    agent = make_agent(away, "timing: {rehearse: false, grace_seconds: 1, boot_seconds: 5}\n")
    agent.branch("better", "serve()")
    watcher = agent.start()
    agent.serving()
    pid = int(Path(agent.places.main_checkout, "logs/away").read_text())
    names = {"infra.runner", "infra.git_door", "infra.model_door"}  # the watcher has other children for moments
    ours = [child for child in psutil.Process(watcher.pid).children() if names & set(child.cmdline())]
    assert len(ours) == 3
    for each in ours:
        each.suspend()
    watcher.kill()
    watcher.wait()
    psutil.wait_procs(ours, timeout=30.0)
    assert [each.is_running() for each in ours] == [False] * 3
    assert is_alive(pid)
    agent.ask(SignalName.BOOTSTRAP, "better")
    agent.start()
    assert agent.serving("better").boots[-1].reason == "bootstrap"
    assert not is_alive(pid)


def test_gits_of_a_killed_watcher_are_ended(make_agent: MakeAgent) -> None:
    """What the watcher itself had begun in a clone is known by its environment; other people's processes are not."""
    agent = make_agent()
    command = [sys.executable, "-c", "import time; time.sleep(300)"]
    ours = subprocess.Popen(command, env={children.KEEPS: agent.places.var})
    others = subprocess.Popen(command, env={children.KEEPS: "/another"})
    try:
        within(30.0, lambda: children.KEEPS in psutil.Process(ours.pid).environ(), "its environment")
        assert len(processes.end_strays(agent.places)) == 1
        assert ours.wait(30) == -signal.SIGKILL
        assert others.poll() is None
    finally:
        for process in (ours, others):
            process.kill()
            process.wait()


# What it meets.


@pytest.mark.fault("F15", "F18", "F80")
def test_a_second_watcher_a_removed_socket_and_half_a_signal_change_nothing(make_agent: MakeAgent) -> None:
    """One agent has one watcher: a second ends with the conflict code. Whoever removes a door's socket shuts it for a
    moment only. A signal that is written in place, bit by bit, is acted on when it is whole, never its beginning."""
    agent = make_agent()
    for name in ("bet", "better"):
        agent.branch(name, "serve()")
    watcher = agent.start()
    first = agent.serving()
    second = agent.start()
    agent.watcher = watcher
    assert second.wait(30) == Exit.CONFLICT
    assert f"pid {watcher.pid}" in (agent.directory / "watcher.err").read_text()

    socket = agent.places.git_socket
    within(30.0, lambda: os.path.exists(socket), "the door open")
    Path(agent.places.signals, "rollback").write_text("-looks-since\n")
    within(30.0, lambda: "-looks-since" in agent.log(), "so the watcher has looked around since the door opened")
    os.unlink(socket)
    within(30.0, lambda: os.path.exists(socket), "the door open again")
    assert f"its socket {socket} was removed" in agent.log()
    assert agent.state().active.boot_id == first.active.boot_id

    with open(f"{agent.places.signals}/bootstrap", "w") as file:
        for part in ("", "bet", "ter\n"):
            file.write(part)
            file.flush()
            time.sleep(0.3)  # the watcher has looked at it by then
    assert "bet" not in [boot.branch for boot in agent.serving("better").boots]


@pytest.mark.fault("F38")
def test_without_a_repository_it_waits_for_one(make_agent: MakeAgent) -> None:
    """The watcher says so, stays, and launches when it is there again."""
    agent = make_agent()
    os.rename(agent.places.remote, f"{agent.places.remote}.away")
    watcher = agent.start()
    within(30.0, lambda: agent.state().failures >= 1, "a failed launch")
    assert watcher.poll() is None
    os.rename(f"{agent.places.remote}.away", agent.places.remote)
    agent.serving(seconds=15.0)
    agent.told("main failed (1 in a row)")


@pytest.mark.fault("F14", "F61")
def test_without_a_free_descriptor_a_launch_is_tried_again(make_agent: MakeAgent) -> None:
    """EMFILE: the watcher lives, says so, and launches when it can again; no runner is left unfollowed."""
    agent = make_agent()
    watcher = agent.start()
    first = agent.serving()
    me = psutil.Process(watcher.pid)
    usual = me.rlimit(resource.RLIMIT_NOFILE)
    me.rlimit(resource.RLIMIT_NOFILE, (max(int(name) for name in os.listdir(f"/proc/{watcher.pid}/fd")), usual[1]))
    os.kill(first.active.pid, signal.SIGKILL)
    time.sleep(1.5)  # it fails at all that it tries meanwhile
    assert watcher.poll() is None
    me.rlimit(resource.RLIMIT_NOFILE, usual)
    second = agent.serving(but=first.active.boot_id, seconds=20.0)
    alive = [child for child in me.children() if child.pid == second.active.pid]
    assert len(alive) == 1
    assert len(me.children()) == 3, "two doors and one runner"


@pytest.mark.fault("F33", "F53")
def test_a_lock_that_a_killed_push_left_does_not_silence_the_watcher(make_agent: MakeAgent) -> None:
    """refs/heads/main.lock of a git that is gone goes, and what was to be told is, in its order, also by the watcher
    after this one; the same kind of trouble is counted in between."""
    agent = make_agent(settings="timing: {rehearse: false, check_seconds: 1}\n")
    lock = Path(agent.places.remote, "refs/heads/main.lock")
    lock.touch()
    watcher = agent.start()
    agent.serving()
    request = Path(agent.places.signals, "bootstrap")
    for number, told in enumerate((1, 2, 2, 3)):
        request.write_text(f"-refused-{number}-\n")
        within(30.0, lambda n=told: len(agent.state().untold) == n and not request.exists(), "kept for later")  # type: ignore[misc]
    assert lock.exists()
    watcher.kill()
    watcher.wait()
    os.utime(lock, (time.time() - 60, time.time() - 60))
    agent.start()
    within(30.0, lambda: agent.log().count('"watcher.started"') == 2 and not agent.state().untold, "told")
    assert re.findall(r"-refused-(\d)-", agent.comms()) == ["0", "1", "3"]
    agent.ask(SignalName.ROLLBACK, "no-such-ref")
    agent.told("rollback to no-such-ref failed")


def test_a_spoiled_identity_is_met_by_safe_mode(make_agent: MakeAgent) -> None:
    """The real watcher, before main's first launch; the PM reads why."""
    agent = make_agent("serve()", "mind: {on_drift: safe_mode}\n")
    remote = Git(agent.places.remote, PM)
    tree = tree_with(remote, EMPTY_TREE, {IDENTITY: write_file(remote, "I am.\n")})
    remote("update-ref", "refs/heads/mind", commit_tree(remote, tree, (), "birth"))
    remote("clone", "--quiet", "--branch", "mind", agent.places.remote, agent.places.mind)
    Path(agent.places.mind, IDENTITY).write_text("I am free.\n")

    agent.start()

    within(20, lambda: agent.state().active.level is Level.SAFE, "safe mode")
    agent.told("boot/identity.md is not as the PM wrote it")


@pytest.mark.fault("F54", "F62")
def test_a_long_life_leaks_nothing(make_agent: MakeAgent) -> None:
    """After 50 more boots the watcher has the same open files, threads and children, and hardly more memory."""
    agent = make_agent('say("BOOTSTRAPPING"); say("SUCCESS"); ask("bootstrap", "main")')
    watcher = psutil.Process(agent.start().pid)

    def after(boots: int) -> tuple[int, int, int, int]:
        within(60.0, lambda: agent.log().count("runner.launched") >= boots, f"{boots} boots")
        watcher.suspend()
        children = [child for child in watcher.children() if child.status() == psutil.STATUS_ZOMBIE]
        counts = watcher.num_fds(), watcher.num_threads(), len(children), watcher.memory_info().rss
        watcher.resume()
        return counts

    before, then = after(15), after(65)
    assert abs(then[0] - before[0]) <= 4, "a boot under way may hold a few"
    assert then[1] == before[1]
    assert then[2] <= 2
    assert then[3] - before[3] < 4 * 1024 * 1024
    assert len(agent.state().boots) <= 20


@pytest.mark.fault("F12")
def test_a_stop_at_any_moment_of_the_start_is_orderly(make_agent: MakeAgent) -> None:
    """SIGTERM while the watcher begins, launches or waits for SUCCESS: it leaves with 0 and leaves nobody behind."""
    agent = make_agent('say("BOOTSTRAPPING"); time.sleep(60)')
    for number in range(5):
        agent.start()
        within(30.0, lambda number=number: agent.log().count("watcher.started") > number, "a start")  # type: ignore[misc]
        time.sleep(number * 0.05)  # the moment is the test
        assert agent.stop() == 0
        assert agent.runners() == []
        assert agent.state().phase == "stopped"
