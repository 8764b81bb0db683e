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

from infra.keep.mind.snapshot_tags import SnapshotKind, snapshots
from infra.keep.services.processes import is_alive
from infra.keep.supervision import memory
from infra.keep.watcher_file import WatcherFile
from infra.shared.boot_log import parse_line
from infra.shared.exit_codes import Exit
from infra.shared.paths import BOOT_LOG
from infra.shared.repository.git import Git
from infra.shared.signals import SignalName
from tests.keep.supervision.agents import HOPELESS, PYTHON, Agent, within

pytestmark = pytest.mark.heavy
MakeAgent = Callable[..., Agent]


def test_launches_main_and_says_running_after_success(make_agent: MakeAgent) -> None:
    """A watcher with no runner starts main from /bot/main/minifram and calls it running when it said SUCCESS."""
    agent = make_agent()
    agent.start()
    state = agent.serving()
    runner = psutil.Process(state.runner_pid)
    assert runner.cwd() == agent.places.main_checkout
    assert state.commit == agent.git("rev-parse", "main")
    assert [boot.outcome for boot in state.boots] == ["success"]
    assert agent.stop() == Exit.OK
    assert not is_alive(state.runner_pid, state.runner_started)
    assert agent.state().phase == "stopped"


def test_no_success_line_is_no_success(make_agent: MakeAgent) -> None:
    """Without SUCCESS of this very boot a runner is ended at the boot's deadline; forged lines do not count."""
    forged = 'say("SUCCESS")\nsay("BOOTSTRAPPING")\nsay("SUCCESS", "0" * 32)\ntime.sleep(60)'
    agent = make_agent(forged, "timing: {rehearse: false, grace_seconds: 1, boot_seconds: 0.5}\n")
    agent.start()
    agent.told("was not healthy within 0.5 s: it did not write SUCCESS")
    assert "success" not in [boot.outcome for boot in agent.state().boots]


def test_bootstrap_signal_launches_the_branch_and_is_deleted(make_agent: MakeAgent) -> None:
    """A hop: main signals and exits, the branch leads; the signal file is gone; nothing counts as a failure."""
    agent = make_agent('say("BOOTSTRAPPING"); say("SUCCESS"); ask("bootstrap", "better")')
    commit = agent.branch("better", "serve()")
    agent.start()
    state = agent.serving("better")
    assert state.commit == commit
    assert [boot.outcome for boot in state.boots] == ["left", "success"]
    assert os.listdir(agent.places.signals) == []
    assert state.troubles == ()


def test_bootstrap_signal_ends_a_runner_that_does_not_leave(served: Agent) -> None:
    """Only one runner at a time: one that signals but stays is ended after the grace, then the branch starts."""
    first = served.state()
    served.ask(SignalName.BOOTSTRAP, "better")
    second = served.serving("better")
    assert not is_alive(first.runner_pid, first.runner_started)
    assert second.boots[-2].outcome == "left"


FAILURES = {
    "exits": ("raise SystemExit(3)", "ended before SUCCESS: exit status 3"),
    "segfault": ("os.kill(os.getpid(), 11)", "SIGSEGV"),
    "no-python": ("this is no python", "SyntaxError"),
    "raises": ('say("BOOTSTRAPPING"); say("SUCCESS"); raise RuntimeError("my last words")', "my last words"),
    "ends": ('say("BOOTSTRAPPING"); say("SUCCESS"); raise SystemExit(0)', "died after SUCCESS: exit status 0"),
}


def test_a_branch_that_fails_gives_way_to_main(make_agent: MakeAgent) -> None:
    """Whatever ends a branch, main leads again within 5 s, and the PM reads why in COMMS.md and the log."""
    agent = make_agent()
    for name, (behaviour, _) in FAILURES.items():
        agent.branch(name, behaviour)
    agent.start()
    state = agent.serving()
    for name, (_, reason) in FAILURES.items():
        agent.ask(SignalName.BOOTSTRAP, name)
        state = agent.serving(but=state.boot_id, seconds=5.0)
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
        assert [(line.word, line.commit, line.boot_id) for line in ended] == [(word, boot.commit, boot.id)]


def test_a_branch_without_a_clone_ends_nobody(served: Agent) -> None:
    """A bootstrap of a branch that has no clone is refused with words, and the runner goes on."""
    first = served.state()
    served.ask(SignalName.BOOTSTRAP, "nowhere")
    assert "a signal was refused" in served.told("no clone of nowhere")
    assert (served.state().boot_id, served.state().request) == (first.boot_id, None)
    os.kill(first.runner_pid, 0)


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
    within(30.0, lambda: agent.state().phase == "preparing", "the first preparation")
    agent.ask(SignalName.BOOTSTRAP, "later")
    within(30.0, lambda: agent.log().count('"preparation.began"') == 2, "the second preparation")
    state = within(30.0, lambda: agent.state() if agent.state().phase == "preparing" else None, "it goes on")
    assert state.request
    assert state.request.target == "later"
    assert "bootstrap slow was dropped: bootstrap later came after it" in state.troubles[-1].text


def test_what_a_rehearsal_wrote_goes_with_it(make_agent: MakeAgent) -> None:
    """When it is broken off, and when its watcher was killed at the start of the next one."""
    agent = make_agent()
    agent.settings.write_text("timing: {grace_seconds: 1, boot_seconds: 5, rehearsal_seconds: 60}\n")

    def scratch() -> str:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                words = dict(word.partition("=")[::2] for word in process.cmdline())
                if words.get("--checkout", "").startswith(agent.places.bot):
                    return words["--scratch"]
        return ""

    for name in ("slow", "later"):
        agent.branch(name, "time.sleep(600)")
    watcher = agent.start()
    agent.serving()
    agent.ask(SignalName.BOOTSTRAP, "slow")
    first = within(30.0, scratch, "the first rehearsal")
    agent.ask(SignalName.BOOTSTRAP, "later")
    second = within(30.0, lambda: at if (at := scratch()) != first else "", "the second rehearsal")
    assert not os.path.exists(first)
    assert os.path.isdir(second)
    watcher.kill()
    watcher.wait()
    agent.start()
    within(30.0, lambda: not os.path.exists(second), "its leftovers to go")


def test_main_that_dies_is_started_again_for_ever(make_agent: MakeAgent) -> None:
    """Where not even safe mode comes up in time, nothing is given up: all are tried again with growing delays, no
    version is blamed for good, and the watcher stays alive."""
    agent = make_agent(*HOPELESS)
    watcher = agent.start()
    state = within(30.0, lambda: agent.state() if agent.state().failures >= 6 else None, "6 failures")
    assert watcher.poll() is None
    assert state.phase in ("waiting", "starting", "booting")
    assert state.safe_mode_failures >= 1
    comms = agent.told("main failed (1 in a row)")
    assert comms.count("main failed (1 in a row)") == 1
    assert not [pin for pin in state.pins if pin.proven]


def test_killed_runner_is_started_again_at_once(make_agent: MakeAgent) -> None:
    """kill -9 of a runner of main: the same commit serves again without a delay."""
    agent = make_agent()
    agent.start()
    first = agent.serving()
    os.kill(first.runner_pid, signal.SIGKILL)
    second = agent.serving(but=first.boot_id)
    assert second.commit == first.commit
    assert second.boots[-2].detail.endswith("SIGKILL")


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
    started = [psutil.Process(pid).create_time() for pid in pids]
    os.kill(first.runner_pid, signal.SIGKILL)
    agent.serving(but=first.boot_id)
    assert [is_alive(pid, at) for pid, at in zip(pids, started, strict=True)] == [False, False]


def test_a_killed_watcher_finds_its_runner_again(make_agent: MakeAgent) -> None:
    """kill -9 of the watcher: the next one goes on with the same runner and still notices its death. The runner's
    commands, which have none of its boot values, do not outlive it."""
    command = (
        "values = {name: value for name, value in os.environ.items() if name != 'MINIFRAM_BOOT'}\n"
        "command = subprocess.Popen(['sleep', '300'], env=values, start_new_session=True)\n"
        "print(command.pid, file=open('logs/command', 'w'), flush=True)\n"
        "serve()"
    )
    agent = make_agent(command)
    agent.start().kill()
    agent.watcher and agent.watcher.wait()
    agent.start()
    first = agent.serving()
    assert agent.watcher
    agent.watcher.kill()
    agent.watcher.wait()
    agent.start()
    within(30.0, lambda: agent.log().count("watcher.started") >= 2 and '"served": true' in agent.log(), "adoption")
    assert agent.state().boot_id == first.boot_id
    command_pid = int(Path(agent.places.main_checkout, "logs/command").read_text())
    command_started = psutil.Process(command_pid).create_time()
    os.kill(first.runner_pid, signal.SIGKILL)
    assert agent.serving(but=first.boot_id).commit == first.commit
    assert not is_alive(command_pid, command_started)


def test_an_adopted_runner_is_stopped_like_any_other(make_agent: MakeAgent) -> None:
    """After kill -9 and a new watcher, one SIGTERM ends both at once."""
    agent = make_agent()
    agent.start()
    first = agent.serving()
    assert agent.watcher
    agent.watcher.kill()
    agent.watcher.wait()
    agent.start()
    within(30.0, lambda: '"served": true' in agent.log(), "adoption")
    agent.watcher.terminate()
    assert agent.watcher.wait(30) == 0
    assert not is_alive(first.runner_pid, first.runner_started)


def test_a_signal_written_while_no_watcher_lives_is_carried_out(make_agent: MakeAgent) -> None:
    """Signal files survive the death of both sides."""
    agent = make_agent()
    agent.branch("better", "serve()")
    agent.start()
    first = agent.serving()
    assert agent.watcher
    agent.watcher.kill()
    agent.watcher.wait()
    os.kill(first.runner_pid, signal.SIGKILL)
    agent.ask(SignalName.BOOTSTRAP, "better")
    agent.start()
    assert agent.serving("better").boots[-1].reason == "bootstrap"


def test_a_decoy_is_not_the_runner(make_agent: MakeAgent) -> None:
    """A process with the runner's command line but no boot id of ours is neither adopted nor ended."""
    agent = make_agent()
    decoy = subprocess.Popen([PYTHON, "-c", "import time; time.sleep(300)", "-E", "-s", "-m", "infra.runner"])
    try:
        agent.start()
        state = agent.serving()
        assert state.runner_pid != decoy.pid
        os.kill(state.runner_pid, signal.SIGKILL)
        agent.serving(but=state.boot_id)
        assert decoy.poll() is None
    finally:
        decoy.kill()
        decoy.wait()


def test_a_second_watcher_is_refused(served: Agent) -> None:
    """One agent has one watcher: a second ends with the conflict code and changes nothing."""
    first, state = served.watcher, served.state()
    assert first
    second = served.start()
    served.watcher = first
    assert second.wait(30) == Exit.CONFLICT
    assert f"pid {first.pid}" in (served.directory / "watcher.err").read_text()
    assert served.state().boot_id == state.boot_id


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
    state = agent.serving(but=first.boot_id)
    bare = Git(agent.places.remote)
    assert bare.ok("merge-base", "--is-ancestor", first.commit, "main")
    assert bare("diff", "--name-only", old, state.commit).split() == ["COMMS.md"]
    assert "keep me" in agent.comms()
    assert not os.path.exists(f"{agent.places.main_checkout}/new-file")
    agent.told(f"rolled back to {old[:12]}")


def test_rollback_beats_bootstrap(make_agent: MakeAgent) -> None:
    """Both signals at once: the rollback is carried out, the bootstrap is dropped and that is written down."""
    agent = make_agent()
    agent.branch("better", "serve()")
    agent.start()
    first = agent.serving()
    agent.ask(SignalName.ROLLBACK, "main")
    agent.ask(SignalName.BOOTSTRAP, "better")
    agent.told("rolled back to main")
    state = agent.serving("main", but=first.boot_id)
    assert all(boot.branch == "main" for boot in state.boots)


GARBAGE = {
    b"": "branch name is empty",
    b"../../etc\n": "not allowed",
    b"a\nb\n": "several lines",
    b"\xff\xfe\n": "not UTF-8",
    b"x" * 5000: "over 4096 bytes",
}


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
    assert agent.state().boot_id == first.boot_id
    os.kill(first.runner_pid, 0)


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


def test_work_in_mains_clone_is_rescued_before_it_is_reset(make_agent: MakeAgent) -> None:
    """What main's clone holds and origin does not is on a pushed rescue branch before main starts from it again."""
    agent = make_agent()
    agent.start()
    first = agent.serving()
    checkout = Path(agent.places.main_checkout)
    (checkout / "unfinished").write_text("half a thought")
    (checkout / "behaviour").write_text("raise SystemExit(9)")
    os.kill(first.runner_pid, signal.SIGKILL)
    second = agent.serving(but=first.boot_id)
    assert second.commit == first.commit
    assert not (checkout / "unfinished").exists()
    bare = Git(agent.places.remote)
    name = bare("for-each-ref", "--format=%(refname)", "refs/heads/rescue")
    assert bare("show", f"{name}:unfinished") == "half a thought"
    assert name.removeprefix("refs/heads/") in agent.told("work was rescued")


def test_work_that_the_door_refuses_is_set_aside_with_its_clone(make_agent: MakeAgent) -> None:
    """When what main's clone holds cannot be pushed, the clone itself is kept and main starts from a new one."""
    agent = make_agent(
        settings="timing: {rehearse: false, grace_seconds: 1, boot_seconds: 5}\nlimits: {blob_bytes: 1000}\n"
    )
    agent.start()
    first = agent.serving()
    checkout = Path(agent.places.main_checkout)
    (checkout / "too-big").write_bytes(os.urandom(2000))
    os.kill(first.runner_pid, signal.SIGKILL)
    agent.serving(but=first.boot_id)
    assert not (checkout / "too-big").exists()
    aside = next(checkout.parent.glob("minifram.aside-*"))
    assert (aside / "too-big").stat().st_size == 2000
    assert str(aside) in agent.told("work was rescued")


def test_doors_do_not_outlive_a_killed_watcher(make_agent: MakeAgent) -> None:
    """kill -9 of the watcher ends its doors, so that the next watcher's doors find their sockets free."""
    agent = make_agent()
    watcher = agent.start()
    agent.serving()
    names = {"infra.git_door", "infra.model_door"}  # the watcher has other children for moments
    doors = [child for child in psutil.Process(watcher.pid).children() if names & set(child.cmdline())]
    assert len(doors) == 2
    watcher.kill()
    watcher.wait()
    psutil.wait_procs(doors, timeout=30.0)
    assert [door.is_running() for door in doors] == [False, False]


@pytest.mark.parametrize("door", ["git", "model"])
def test_a_door_without_its_socket_is_opened_anew(served: Agent, door: str) -> None:
    """Whoever removes a socket shuts the door for a moment only; the runner goes on."""
    first = served.state()
    socket = getattr(served.places, f"{door}_socket")
    within(30.0, lambda: os.path.exists(socket), "the door open")
    words = f"-looks-since-{door}-opened"
    Path(served.places.signals, "rollback").write_text(f"{words}\n")
    within(30.0, lambda: words in served.log(), "so the watcher has looked around since the door opened")
    before = served.log().count("door.socket_gone")
    os.unlink(socket)
    within(30.0, lambda: os.path.exists(socket), "the door open again")
    assert served.log().count("door.socket_gone") > before
    assert served.state().boot_id == first.boot_id


def test_an_unreadable_state_is_set_aside(make_agent: MakeAgent) -> None:
    """Garbage in the watcher's own file does not stop supervision, and is kept for whoever wants to look."""
    agent = make_agent()
    os.makedirs(agent.places.var)
    Path(agent.places.watcher_state).write_text("{not json")
    agent.start()
    agent.serving()
    assert Path(agent.places.watcher_state + ".unreadable").read_text() == "{not json"


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


def test_a_storm_of_signals_does_not_end_the_watcher(make_agent: MakeAgent) -> None:
    """SIGHUP, SIGUSR1, SIGPIPE and SIGCHLD in masses change nothing."""
    agent = make_agent()
    watcher = agent.start()
    first = agent.serving()
    for _ in range(500):
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE, signal.SIGCHLD):
            watcher.send_signal(number)
    os.kill(first.runner_pid, signal.SIGKILL)
    agent.serving(but=first.boot_id)


def test_runner_output_is_captured(make_agent: MakeAgent) -> None:
    """Everything a runner writes to stdout and stderr is in logs/errors.log of its checkout."""
    agent = make_agent('print("to stdout", flush=True); print("to stderr", file=sys.stderr, flush=True)\nserve()')
    agent.start()
    agent.serving()
    text = Path(agent.places.main_checkout, "logs/errors.log").read_text()
    assert "to stdout" in text
    assert "to stderr" in text


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
        os.kill(first.runner_pid, signal.SIGKILL)
        agent.told("main failed (1 in a row)")
        assert watcher.poll() is None
        filler.unlink()
        second = agent.serving(but=first.boot_id)
        assert is_alive(second.runner_pid, second.runner_started)
        agent.close()
    finally:
        subprocess.run(["umount", "--lazy", agent.places.var], check=True)


def test_the_memory_before_an_unreadable_one_is_kept_too(tmp_path: Path) -> None:
    """Two spoiled ones in a row: the second does not take the place of the first."""
    path = tmp_path / "watcher.json"
    for text in ("{first", "{second"):
        path.write_text(text)
        file, problem = memory.load(str(path))
        assert (file, "set aside" in problem) == (WatcherFile(), True)
    assert (tmp_path / "watcher.json.unreadable").read_text() == "{second"
    assert (tmp_path / "watcher.json.unreadable.before").read_text() == "{first"


LOOPS = """# loops
loops = [subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"], start_new_session=True) for _ in "ab"]
open(f"{BOT}/loops", "w").write(" ".join(str(loop.pid) for loop in loops))
open("logs/life.json", "w").write(json.dumps({"doing": "sleeping"}))
serve()
"""


def test_loops_that_run_while_the_agent_sleeps_are_ended(make_agent: MakeAgent) -> None:
    """They, and not the runner, whose state does not explain them; the PM reads which."""
    agent = make_agent(
        LOOPS, "timing: {rehearse: false, grace_seconds: 1, boot_seconds: 5, bounds: {sample_seconds: 1}}\n"
    )
    agent.start()
    serving = agent.serving()
    loops = [int(pid) for pid in Path(agent.places.bot, "loops").read_text().split()]

    def over() -> bool:
        return all(not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie" for pid in loops)

    within(60.0, over, "the end of both loops")
    assert agent.state().boot_id == serving.boot_id, "the runner goes on"
    assert "The agent said that it slept" in agent.told("a limit: idle")


def test_a_hop_leaves_a_snapshot_of_the_mind(make_agent: MakeAgent) -> None:
    """Before the branch's code runs; the mind as it was, in the keep's name."""
    agent = make_agent('say("BOOTSTRAPPING"); say("SUCCESS"); ask("bootstrap", "better")')
    commit = agent.branch("better", "serve()")
    remote = Git(agent.places.remote)
    remote("update-ref", "refs/heads/mind", commit)
    agent.start()
    agent.serving("better")
    made = [each for each in snapshots(remote) if each.kind is SnapshotKind.PRE_MODIFICATION]
    assert [(each.commit, each.reason) for each in made] == [(commit, "pre-modification: better")]
