"""The real watcher with real processes, git and signal files; only the runner is a stand-in of a few lines."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from infra.keep.mind.snapshots import PRE_MODIFICATION, snapshots
from infra.keep.services.processes import is_alive
from infra.shared.boot import parse_line
from infra.shared.exit_codes import Exit
from infra.shared.paths import BOOT_LOG
from infra.shared.repository.git import Git
from infra.shared.signals import SignalName
from tests.keep.supervision.agents import Agent, within

pytestmark = pytest.mark.heavy
MakeAgent = Callable[..., Agent]


def test_launches_main_and_says_running_after_success(make_agent: MakeAgent) -> None:
    """A watcher with no runner starts main from /bot/main/minifram and calls it running when it said SUCCESS."""
    agent = make_agent()
    agent.start()
    state = agent.serving()
    runner = psutil.Process(state.active.pid)
    assert runner.cwd() == agent.places.main_checkout
    assert state.active.commit == agent.git("rev-parse", "main")
    assert [boot.outcome for boot in state.boots] == ["success"]
    assert agent.stop() == Exit.OK
    assert not is_alive(state.active.pid)
    assert agent.state().phase == "stopped"


@pytest.mark.fault("F27")
@pytest.mark.attack("S20")
def test_no_success_line_is_no_success(make_agent: MakeAgent) -> None:
    """Without SUCCESS of this very boot a runner is ended at the boot's deadline; forged lines do not count."""
    forged = 'say("SUCCESS")\nsay("BOOTSTRAPPING")\nsay("SUCCESS", "0" * 32)\ntime.sleep(60)'
    agent = make_agent(forged, "timing: {rehearse: false, grace_seconds: 1, boot_seconds: 0.5}\n")
    agent.start()
    agent.told("did not write SUCCESS within 0.5 s")
    assert "success" not in [boot.outcome for boot in agent.state().boots]


def test_bootstrap_signal_launches_the_branch_and_is_deleted(make_agent: MakeAgent) -> None:
    """A hop: main signals and exits, the branch leads; the signal file is gone; nothing counts as a failure."""
    agent = make_agent('say("BOOTSTRAPPING"); say("SUCCESS"); ask("bootstrap", "better")')
    commit = agent.branch("better", "serve()")
    agent.start()
    state = agent.serving("better")
    assert state.active.commit == commit
    assert [boot.outcome for boot in state.boots] == ["left", "success"]
    assert os.listdir(agent.places.signals) == []
    assert state.troubles == ()


def test_bootstrap_signal_ends_a_runner_that_does_not_leave(served: Agent) -> None:
    """Only one runner at a time: one that signals but stays is ended after the grace, then the branch starts."""
    first = served.state()
    served.ask(SignalName.BOOTSTRAP, "better")
    second = served.serving("better")
    assert not is_alive(first.active.pid)
    assert second.boots[-2].outcome == "left"


FAILURES = {
    "exits": ("raise SystemExit(3)", "ended before SUCCESS: exit status 3"),
    "segfault": ("os.kill(os.getpid(), 11)", "SIGSEGV"),
    "no-python": ("this is no python", "SyntaxError"),
    "raises": ('say("BOOTSTRAPPING"); say("SUCCESS"); raise RuntimeError("my last words")', "my last words"),
    "ends": ('say("BOOTSTRAPPING"); say("SUCCESS"); raise SystemExit(0)', "died after SUCCESS: exit status 0"),
}


@pytest.mark.fault("F03", "F50")
def test_a_branch_that_fails_gives_way_to_main(make_agent: MakeAgent) -> None:
    """Whatever ends a branch, main leads again within 5 s, and the PM reads why in COMMS.md and the log."""
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


@pytest.mark.fault("F25")
def test_a_branch_without_a_clone_ends_nobody(served: Agent) -> None:
    """A bootstrap of a branch that has no clone is refused with words, and the runner goes on."""
    first = served.state()
    served.ask(SignalName.BOOTSTRAP, "nowhere")
    assert "a signal was refused" in served.told("no clone of nowhere")
    assert (served.state().active.boot_id, served.state().request) == (first.active.boot_id, None)
    os.kill(first.active.pid, 0)


def test_a_signal_without_a_final_newline_counts(served: Agent) -> None:
    """`printf better > .signal/bootstrap`, once it has lain there for a moment."""
    Path(served.places.signals, "bootstrap").write_text("better")
    served.serving("better")


def test_a_signal_that_comes_during_a_preparation_counts(make_agent: MakeAgent) -> None:
    """The rehearsal of the branch before it is broken off, and the later branch is prepared."""
    agent = make_agent()
    agent.settings.write_text("timing: {grace_seconds: 1, boot_seconds: 5, rehearsal_seconds: 60}\n")
    for name in ("slow", "later"):
        agent.branch(name, "time.sleep(600)")
    agent.start()
    agent.serving()
    agent.ask(SignalName.BOOTSTRAP, "slow")
    within(30.0, lambda: agent.log().count('"preparation.began"') == 1, "the first preparation")
    agent.ask(SignalName.BOOTSTRAP, "later")
    within(30.0, lambda: agent.log().count('"preparation.began"') == 2, "the second preparation")
    state = agent.state()
    assert state.request
    assert state.request.target == "later"
    assert "bootstrap slow was dropped: bootstrap later is to be carried out" in state.troubles[-1].text


def test_what_a_rehearsal_wrote_goes_with_it(make_agent: MakeAgent) -> None:
    """When it is broken off, and when its watcher was killed at the start of the next one."""
    agent = make_agent()
    agent.settings.write_text("timing: {grace_seconds: 1, boot_seconds: 5, rehearsal_seconds: 60}\n")

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
    assert not os.path.exists(f"{place}/mark")
    watcher.kill()
    watcher.wait()
    agent.start()
    within(30.0, lambda: not os.path.exists(place), "its leftovers to go")


@pytest.mark.fault("F01")
def test_killed_runner_is_started_again_at_once(make_agent: MakeAgent) -> None:
    """kill -9 of a runner of main: the same commit serves again without a delay."""
    agent = make_agent()
    agent.start()
    first = agent.serving()
    os.kill(first.active.pid, signal.SIGKILL)
    second = agent.serving(but=first.active.boot_id)
    assert second.active.commit == first.active.commit
    assert second.boots[-2].detail.endswith("SIGKILL")


@pytest.mark.fault("F07")
def test_descendants_are_ended_before_the_next_runner(make_agent: MakeAgent) -> None:
    """A daemon that forked twice into a session of its own does not outlive its runner."""
    stubborn = 'trap "" TERM; echo $$ > logs/stubborn; while :; do sleep 1; done'
    daemon = (
        'subprocess.Popen(["sh", "-c", "setsid sleep 300 & echo $! > logs/daemon"]).wait()\n'
        f"subprocess.Popen(['sh', '-c', 'setsid sh -c \"$0\" & exit', {stubborn!r}]).wait()\n"
        "serve()"
    )
    agent = make_agent(daemon)
    agent.start()
    first = agent.serving()
    logs = Path(agent.places.main_checkout, "logs")
    pids = [
        int(within(30.0, lambda name=name: (logs / name).exists() and (logs / name).read_text().strip(), name))  # type: ignore[misc]
        for name in ("daemon", "stubborn")
    ]
    os.kill(first.active.pid, signal.SIGKILL)
    agent.serving(but=first.active.boot_id)
    assert [is_alive(pid) for pid in pids] == [False, False]


@pytest.mark.fault("F11", "F13")
def test_nobody_outlives_a_killed_watcher(make_agent: MakeAgent) -> None:
    """kill -9 of the watcher: its runner and its doors end with it, a stopped one too, so that the next watcher's find
    their sockets free; what had gone away from the runner ends at the next start."""
    away = "print(subprocess.Popen(['sleep', '300'], start_new_session=True).pid, file=open('logs/away', 'w'))\nserve()"
    agent = make_agent(away)
    watcher = agent.start()
    first = agent.serving()
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
    agent.start()
    assert agent.serving(but=first.active.boot_id).active.commit == first.active.commit
    assert not is_alive(pid)


def test_a_signal_written_while_no_watcher_lives_is_carried_out(make_agent: MakeAgent) -> None:
    """Signal files survive the death of both sides."""
    agent = make_agent()
    agent.branch("better", "serve()")
    agent.start()
    agent.serving()
    assert agent.watcher
    agent.watcher.kill()
    agent.watcher.wait()
    agent.ask(SignalName.BOOTSTRAP, "better")
    agent.start()
    assert agent.serving("better").boots[-1].reason == "bootstrap"


@pytest.mark.fault("F15")
def test_a_second_watcher_is_refused(served: Agent) -> None:
    """One agent has one watcher: a second ends with the conflict code and changes nothing."""
    first, state = served.watcher, served.state()
    assert first
    second = served.start()
    served.watcher = first
    assert second.wait(30) == Exit.CONFLICT
    assert f"pid {first.pid}" in (served.directory / "watcher.err").read_text()
    assert served.state().active.boot_id == state.active.boot_id


def test_rollback_signal_makes_a_new_commit_with_the_old_tree(make_agent: MakeAgent) -> None:
    """Rollback: history only grows, COMMS.md stays, main runs the old tree, the file is gone."""
    agent = make_agent()
    old = agent.git("rev-parse", "main")
    (agent.clone / "new-file").write_text("new")
    (agent.clone / "COMMS.md").write_text("# COMMS\n\n## Directives\n\n- [ ] keep me\n\n## Reports\n")
    agent.commit("serve() # later")
    agent.git("push", "-q", "origin", "main")
    agent.start()
    first = agent.serving()
    agent.ask(SignalName.ROLLBACK, old[:12])
    state = agent.serving(but=first.active.boot_id)
    bare = Git(agent.places.remote)
    assert bare.ok("merge-base", "--is-ancestor", first.active.commit, "main")
    assert bare("diff", "--name-only", old, state.active.commit).split() == ["COMMS.md"]
    assert "keep me" in agent.comms()
    assert not os.path.exists(f"{agent.places.main_checkout}/new-file")
    agent.told(f"rolled back to {old[:12]}")


@pytest.mark.fault("F20")
def test_rollback_beats_bootstrap(make_agent: MakeAgent) -> None:
    """Both signals at once: the rollback is carried out, the bootstrap is dropped and that is written down."""
    agent = make_agent()
    agent.branch("better", "serve()")
    agent.start()
    first = agent.serving()
    agent.ask(SignalName.ROLLBACK, "main")
    agent.ask(SignalName.BOOTSTRAP, "better")
    agent.told("rolled back to main")
    state = agent.serving("main", but=first.active.boot_id)
    assert all(boot.branch == "main" for boot in state.boots)


GARBAGE = {
    b"": "branch name is empty",
    b"../../etc\n": "not allowed",
    b"a\nb\n": "several lines",
    b"\xff\xfe\n": "not UTF-8",
    b"x" * 5000: "over 4096 bytes",
}


@pytest.mark.fault("F24")
@pytest.mark.attack("S19")
def test_garbage_in_a_signal_file_is_refused_and_told(make_agent: MakeAgent) -> None:
    """A signal that cannot be understood is deleted, its reason reaches the PM, the runner stays. The PM reads the
    first two of a kind; the log has all."""
    agent = make_agent()
    agent.start()
    first = agent.serving()
    path = Path(agent.places.signals, "bootstrap")
    beside = Path(agent.places.signals, ".new")
    for number, (content, words) in enumerate(GARBAGE.items()):
        beside.write_bytes(content)
        beside.rename(path)
        assert number > 1 or "a signal was refused" in agent.told(words)
        within(30.0, lambda words=words: words in agent.log(), words)  # type: ignore[misc]
        assert not path.exists()
    assert agent.state().active.boot_id == first.active.boot_id
    os.kill(first.active.pid, 0)


@pytest.mark.fault("F23")
@pytest.mark.attack("S18")
def test_a_signal_that_is_no_file_is_refused_without_blocking(make_agent: MakeAgent) -> None:
    """A FIFO, a directory or a link in the place of a signal never blocks the watcher and is never followed."""
    agent = make_agent()
    agent.start()
    agent.serving()
    path = Path(agent.places.signals, "rollback")
    made = Path(agent.directory, "made")  # whole before the watcher can take it
    made.mkdir()
    (made / "inside").write_text("x")
    ways: tuple[Callable[[], object], ...] = (
        lambda: path.symlink_to("/etc/hostname"),
        lambda: made.rename(path),
        lambda: os.mkfifo(path),
    )
    for number, put in enumerate(ways, 1):
        put()
        within(30.0, lambda: not os.path.lexists(path), "the signal gone")
        within(30.0, lambda number=number: agent.log().count("signal.refused") >= number, "refused")  # type: ignore[misc]
    agent.told("a signal was refused")


@pytest.mark.fault("F55")
def test_main_keeps_its_clone_after_itself_and_gets_a_new_one_after_another(make_agent: MakeAgent) -> None:
    """What runs is main's commit, whatever its clone holds; what it left there is where it was, or was set aside."""
    agent = make_agent()
    agent.branch("other", "serve()")
    agent.start()
    first = agent.serving()
    checkout = Path(agent.places.main_checkout)
    (checkout / "unfinished").write_text("half a thought")
    (checkout / "infra/runner.py").write_text("raise SystemExit(9)")
    os.kill(first.active.pid, signal.SIGKILL)
    second = agent.serving(but=first.active.boot_id)
    assert second.active.commit == first.active.commit
    assert (checkout / "unfinished").read_text() == "half a thought"

    agent.ask(SignalName.BOOTSTRAP, "other")
    agent.serving("other")
    agent.ask(SignalName.BOOTSTRAP, "main")
    agent.serving()

    assert not (checkout / "unfinished").exists()
    (aside,) = checkout.parent.glob("minifram.aside-*")
    assert (aside / "unfinished").read_text() == "half a thought"
    assert first.active.boot_id in (checkout / "logs/bootstrap.log").read_text()


@pytest.mark.fault("F80")
@pytest.mark.parametrize("door", ["git", "model"])
def test_a_door_without_its_socket_is_opened_anew(served: Agent, door: str) -> None:
    """Whoever removes a socket shuts the door for a moment only; the runner goes on."""
    first = served.state()
    socket = getattr(served.places, f"{door}_socket")
    within(30.0, lambda: os.path.exists(socket), "the door open")
    words = f"-looks-since-{door}-opened"
    Path(served.places.signals, "rollback").write_text(f"{words}\n")
    within(30.0, lambda: words in served.log(), "so the watcher has looked around since the door opened")
    os.unlink(socket)
    within(30.0, lambda: os.path.exists(socket), "the door open again")
    assert f"its socket {socket} was removed" in served.log()
    assert served.state().active.boot_id == first.active.boot_id


@pytest.mark.fault("F81")
def test_an_unreadable_state_is_set_aside(make_agent: MakeAgent) -> None:
    """Garbage in the watcher's own file does not stop supervision, and is kept for whoever wants to look."""
    agent = make_agent()
    os.makedirs(agent.places.var)
    Path(agent.places.watcher_state).write_text("{not json")
    agent.start()
    agent.serving()
    assert Path(agent.places.watcher_state + ".unreadable").read_text() == "{not json"


@pytest.mark.fault("F38")
def test_a_missing_repository_is_waited_for(make_agent: MakeAgent) -> None:
    """No bare repository: the watcher says so, stays, and launches when it is there again."""
    agent = make_agent()
    os.rename(agent.places.remote, f"{agent.places.remote}.away")
    watcher = agent.start()
    within(30.0, lambda: agent.state().failures >= 1, "a failed launch")
    assert watcher.poll() is None
    os.rename(f"{agent.places.remote}.away", agent.places.remote)
    agent.serving(seconds=15.0)
    agent.told("main failed (1 in a row)")


@pytest.mark.fault("F12")
def test_a_storm_of_signals_does_not_end_the_watcher(make_agent: MakeAgent) -> None:
    """SIGHUP, SIGUSR1, SIGPIPE and SIGCHLD in masses change nothing."""
    agent = make_agent()
    watcher = agent.start()
    first = agent.serving()
    for _ in range(500):
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE, signal.SIGCHLD):
            watcher.send_signal(number)
    os.kill(first.active.pid, signal.SIGKILL)
    agent.serving(but=first.active.boot_id)


@pytest.mark.fault("F59")
def test_runner_output_is_captured(make_agent: MakeAgent) -> None:
    """Everything a runner writes to stdout and stderr is in logs/errors.log of its checkout."""
    agent = make_agent('print("to stdout", flush=True); print("to stderr", file=sys.stderr, flush=True)\nserve()')
    agent.start()
    agent.serving()
    text = Path(agent.places.main_checkout, "logs/errors.log").read_text()
    assert "to stdout" in text
    assert "to stderr" in text


@pytest.mark.fault("F40")
def test_a_full_disk_does_not_stop_supervision(make_agent: MakeAgent) -> None:
    """No space for the watcher's own state: it says so, goes on, and remembers again when there is space."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    agent = make_agent()
    os.makedirs(agent.places.var)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", agent.places.var], check=True)
    try:
        watcher = agent.start()
        first = agent.serving()
        filler = Path(agent.places.var, "filler")
        with pytest.raises(OSError, match="No space left"):
            filler.write_bytes(b"x" * 1024 * 1024)
        os.kill(first.active.pid, signal.SIGKILL)
        agent.told("main failed (1 in a row)")
        assert watcher.poll() is None
        filler.unlink()
        second = agent.serving(but=first.active.boot_id)
        assert is_alive(second.active.pid)
        agent.close()
    finally:
        subprocess.run(["umount", "--lazy", agent.places.var], check=True)


def test_a_hop_leaves_a_snapshot_of_the_mind(make_agent: MakeAgent) -> None:
    """Before the branch's code runs; the mind as it was, in the keep's name."""
    agent = make_agent('say("BOOTSTRAPPING"); say("SUCCESS"); ask("bootstrap", "better")')
    commit = agent.branch("better", "serve()")
    remote = Git(agent.places.remote)
    remote("update-ref", "refs/heads/mind", commit)
    agent.start()
    agent.serving("better")
    made = [each for each in snapshots(remote) if each.kind == PRE_MODIFICATION]
    assert [(each.commit, each.reason) for each in made] == [(commit, "pre-modification: better")]
