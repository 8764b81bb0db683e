"""The watcher's end of a probe: what comes of a question, whatever the other end does. Sockets and processes are real;
the clock is an argument, so that a test which waits for a deadline does not wait."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from infra.keep.active import Runner
from infra.keep.supervision import probe
from infra.keep.supervision.probe import Challenge, Probe, Reply, judge_doors, judge_runner
from infra.shared import control
from infra.shared.control import Heartbeat, ProbeAnswer
from infra.shared.paths import Paths
from infra.shared.people import WATCHER
from infra.shared.repository.git import Git, GitError
from infra.shared.signals import SignalName
from infra.shared.sockets import control_address
from tests.keep.supervision.agents import Agent, within

NOW = 1000.0
ASLEEP = Heartbeat("sleeping", 1.0, 60.0)


def judge(runner: Runner, reply: Reply, challenge: Challenge) -> str:
    """What is wrong with the runner or, when nothing is, with a door."""
    return judge_runner(runner, reply, challenge) or judge_doors(reply, challenge)


def a_runner(pid: int = 0) -> Runner:
    return Runner(secrets.token_hex(16), "main", "1" * 40, pid or os.getpid(), 0.0)


def answer_to(runner: Runner, challenge: Challenge, heart: Heartbeat = ASLEEP) -> ProbeAnswer:
    """What a healthy runner answers."""
    known = (runner.boot_id, runner.branch, runner.commit, runner.pid)
    return ProbeAnswer(challenge.probe, *known, heart, challenge.git, challenge.model)


def line_of(answer: ProbeAnswer) -> bytes:
    return control.answer_line(answer)[:-1]


@pytest.fixture
def runner() -> Runner:
    return a_runner()


@pytest.fixture
def listening(runner: Runner) -> Iterator[socket.socket]:
    """This very process as the runner: its socket, on which a test does what it likes."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(control_address(runner.boot_id))
        server.listen(4)
        server.settimeout(20.0)
        yield server


@pytest.fixture
def asking(runner: Runner) -> Iterator[Callable[[], Probe]]:
    """Probes of `runner` begun at NOW, without the doors; closed afterwards."""
    begun: list[Probe] = []

    def ask() -> Probe:
        begun.append(probe.begin(runner, NOW))
        return begun[-1]

    yield ask
    for each in begun:
        each.close()


def replied(asked: Probe) -> Reply:
    """What comes of it while no time passes for it."""
    return within(30.0, lambda: asked.look(NOW), "a reply")


def test_a_question_is_answered(runner: Runner, listening: socket.socket, asking: Callable[[], Probe]) -> None:
    """On the wire it is one line; its answer is one, and then nothing is left open."""
    asked = asking()
    assert asked.look(NOW) is None
    wire, _ = listening.accept()
    with wire, wire.makefile("rb") as reading:
        question = control.read_question(reading.readline())
        assert question == (asked.challenge.probe, False)
        assert asked.look(NOW) is None
        poll = select.poll()
        poll.register(asked.fds()[0], select.POLLIN)
        assert not poll.poll(0)

        wire.sendall(control.answer_line(answer_to(runner, asked.challenge)))

        assert poll.poll(20_000)
    reply = asked.look(NOW)
    assert reply is not None
    assert judge(runner, reply, asked.challenge) == ""
    assert asked.fds() == []
    assert asked.look(NOW + 1e9) == reply


def test_two_questions_are_never_the_same(listening: socket.socket, asking: Callable[[], Probe]) -> None:
    """So an answer can be kept, but not used again."""
    first, second = asking(), asking()

    assert first.challenge != second.challenge
    kept = Reply(line_of(answer_to(first.runner, first.challenge)))
    assert judge(first.runner, kept, first.challenge) == ""
    assert "says it is the answer to" in judge(first.runner, kept, second.challenge)


def test_silence_ends_at_the_deadline(listening: socket.socket, asking: Callable[[], Probe]) -> None:
    """It takes the connection and says nothing; until then nothing is known, and nobody waits."""
    asked = asking()
    wire, _ = listening.accept()
    with wire:
        assert asked.look(NOW + probe.PATIENCE_SECONDS - 0.01) is None

        reply = asked.look(NOW + probe.PATIENCE_SECONDS)

    assert reply == Reply(trouble="no answer in time")
    assert asked.fds() == []


def test_nobody_listens(asking: Callable[[], Probe]) -> None:
    """That is known at once."""
    assert asking().look(NOW) == Reply(trouble="it does not listen on its control socket")


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        (b"", "it closed its control socket without a word"),
        (b'{"probe": ', "it closed its control socket after 10 bytes that end no line"),
    ],
)
def test_it_closes_before_it_has_answered(
    listening: socket.socket, asking: Callable[[], Probe], said: bytes, trouble: str
) -> None:
    """Half of a line is none."""
    asked = asking()
    wire, _ = listening.accept()
    wire.recv(1000)
    wire.sendall(said)
    wire.close()

    assert replied(asked).trouble == trouble


def test_it_dies_with_the_question_unread(listening: socket.socket, asking: Callable[[], Probe]) -> None:
    """The kernel then says something else than for an orderly end."""
    asked = asking()
    wire, _ = listening.accept()
    wire.close()

    assert replied(asked).trouble == "its control socket fails: Connection reset by peer"


def test_an_endless_answer_is_cut_off(listening: socket.socket, asking: Callable[[], Probe]) -> None:
    """A gibibyte without a newline costs the watcher 64 KiB."""
    asked = asking()
    wire, _ = listening.accept()
    sent = threading.Event()

    def flood() -> None:
        with wire:
            try:
                for _ in range(1024):
                    wire.sendall(b"x" * (1 << 20))
            except OSError:
                sent.set()

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        assert replied(asked).trouble == "its answer has over 65536 bytes"
        assert sent.wait(20.0), "the control: it was still sending"
    finally:
        asked.close()
        thread.join()


def test_a_dribble_wakes_nobody_for_long(listening: socket.socket, asking: Callable[[], Probe]) -> None:
    """Byte by byte it would wake the watcher thousands of times; it is let be until the deadline or its end."""
    asked = asking()
    wire, _ = listening.accept()
    with wire:
        for count in range(probe.PIECES):
            assert asked.fds() != [], count
            wire.sendall(b"x")
            assert asked.look(NOW) is None
        assert asked.fds() == []
        wire.sendall(b"x")
        assert asked.look(NOW + 1e9) == Reply(trouble=f"only {probe.PIECES + 1} bytes of answer in time")


def test_a_slow_answer_is_an_answer(runner: Runner, listening: socket.socket, asking: Callable[[], Probe]) -> None:
    """In more pieces than wake the watcher, it is found whole at a later look."""
    asked = asking()
    wire, _ = listening.accept()
    with wire:
        for byte in control.answer_line(answer_to(runner, asked.challenge)):
            assert asked.look(NOW) is None
            wire.sendall(bytes([byte]))
        reply = asked.look(NOW)
    assert reply is not None
    assert judge(runner, reply, asked.challenge) == ""


def test_a_full_queue_is_tried_again(runner: Runner, listening: socket.socket, asking: Callable[[], Probe]) -> None:
    """While it takes no connection nothing is polled, and it ends at the deadline; once it does, it is asked."""
    listening.listen(0)
    ahead = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) for _ in range(3)]
    taken = [each.connect_ex(control_address(runner.boot_id)) == 0 for each in ahead]
    assert not all(taken), "the queue is not full"
    late, asked = asking(), asking()
    assert (asked.look(NOW), asked.fds()) == (None, [])
    assert late.look(NOW + 1e9) == Reply(trouble="no answer in time: it takes no connection")

    for _ in range(taken.count(True)):
        listening.accept()[0].close()
    assert asked.look(NOW) is None
    wire, _ = listening.accept()
    with wire:
        wire.sendall(control.answer_line(answer_to(runner, asked.challenge)))
        assert judge(runner, replied(asked), asked.challenge) == ""
    for each in ahead:
        each.close()


SQUATTER = """
import socket, sys, time
server = socket.socket(socket.AF_UNIX)
server.bind("\\0" + sys.argv[1])
server.listen(4)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def other(runner: Runner) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that listens under the runner's name."""
    words = [sys.executable, "-c", SQUATTER, control_address(runner.boot_id)[1:]]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def test_another_process_under_its_name_is_not_believed(
    runner: Runner, other: subprocess.Popen[bytes], asking: Callable[[], Probe]
) -> None:
    """The kernel says who listens; the control: asked as what it is, it is heard out."""
    words = f"process {other.pid} listens on its control socket; expected {runner.pid}"
    asked = asking()
    assert asked.look(NOW) == Reply(trouble=words)
    assert asked.fds() == []

    itself = probe.begin(replace(runner, pid=other.pid), NOW)
    assert itself.look(NOW) is None
    itself.close()


def test_a_stopped_process_is_silent(runner: Runner, other: subprocess.Popen[bytes]) -> None:
    """SIGSTOP: the kernel takes the connection for it, and there it ends."""
    other.send_signal(signal.SIGSTOP)
    asked = probe.begin(replace(runner, pid=other.pid), NOW)

    assert asked.look(NOW) is None
    assert asked.look(asked.deadline) == Reply(trouble="no answer in time")


def test_its_end_is_noticed(runner: Runner, other: subprocess.Popen[bytes]) -> None:
    """A runner that is killed with a question open answers it by that."""
    asked = probe.begin(replace(runner, pid=other.pid), NOW)
    assert asked.look(NOW) is None

    other.kill()

    assert replied(asked).trouble.startswith("its control socket fails")
    asked.close()


# What an answer is worth.

CHALLENGE = Challenge("a" * 32, "b" * 32, "c" * 32)
RUNNER = a_runner(77)
GOOD = answer_to(RUNNER, CHALLENGE)


def test_a_good_answer_is_good() -> None:
    """The control of all below; also with other names beside ours, and at the very end of a promise."""
    assert judge(RUNNER, Reply(line_of(GOOD)), CHALLENGE) == ""
    assert judge(RUNNER, Reply(line_of(GOOD._replace(git=f"{'d' * 32} {CHALLENGE.git}"))), CHALLENGE) == ""
    last = GOOD._replace(heart=Heartbeat("working", 60.0, 60.0))
    assert judge_runner(RUNNER, Reply(line_of(last)), CHALLENGE, longest=60.0) == ""
    assert judge(RUNNER, Reply(line_of(GOOD._replace(git="", model=""))), Challenge(CHALLENGE.probe)) == ""


def test_time_in_which_it_was_held_breaks_no_promise() -> None:
    """The watcher stopped it for an examination: the promise that it had given before is late by as much."""
    late = Reply(line_of(GOOD._replace(heart=Heartbeat("working", 100.0, 60.0))))
    assert judge_runner(RUNNER, late, CHALLENGE, held=40.0) == ""
    assert "had promised 60 s" in judge_runner(RUNNER, late, CHALLENGE, held=39.0)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (GOOD._replace(probe="b" * 32), "says it is the answer to 'bbbb"),
        (GOOD._replace(boot_id="0" * 32), "says it is boot '0000"),
        (GOOD._replace(pid=78), "says it is process 78; expected 77"),
        (GOOD._replace(branch="other"), "says it is branch 'other'; expected 'main'"),
        (GOOD._replace(commit="2" * 40), "says it is commit '2222"),
        (GOOD._replace(heart=Heartbeat("x", 61.0, 60.0)), "last heard of 61 s ago while 'x'; it had promised 60 s"),
        (GOOD._replace(heart=Heartbeat("x", 0.0, 1e9)), "promises to be silent for 1000000000 s while 'x'"),
    ],
)
def test_what_is_wrong_with_the_runner_is_said(answer: ProbeAnswer, words: str) -> None:
    """Not the one that was launched, or a main loop that is not heard of any more; its doors are well all the same."""
    reply = Reply(line_of(answer))

    assert words in judge_runner(RUNNER, reply, CHALLENGE, longest=7260.0)
    assert judge_doors(reply, CHALLENGE) == ""


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (GOOD._replace(git=""), "through the git door"),
        (GOOD._replace(git=CHALLENGE.git[:-1]), "through the git door"),
        (
            GOOD._replace(model="", trouble="model door: away"),
            "through the model door what the watcher wrote there ('mo",
        ),
        (GOOD._replace(model=CHALLENGE.git), "through the model door"),
    ],
)
def test_a_door_that_was_not_used_is_told_from_a_runner_that_is_not_well(answer: ProbeAnswer, words: str) -> None:
    """For it may be the door that fails."""
    reply = Reply(line_of(answer))

    assert words in judge_doors(reply, CHALLENGE)
    assert words in judge(RUNNER, reply, CHALLENGE)
    assert judge_runner(RUNNER, reply, CHALLENGE) == ""


def test_no_answer_is_the_runners_trouble() -> None:
    """Of the doors nothing is known then."""
    reply = Reply(trouble="no answer in time")

    assert judge(RUNNER, reply, CHALLENGE) == judge_runner(RUNNER, reply, CHALLENGE) == "no answer in time"
    assert judge_doors(reply, CHALLENGE) == "nothing is known of the doors: no answer in time"


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(ProbeAnswer._fields) | st.text(), inner),
)
changes = st.dictionaries(st.sampled_from(ProbeAnswer._fields), json_values)


@given(st.binary() | changes.map(lambda given: json.dumps(GOOD._asdict() | given).encode()))
def test_every_line_has_a_verdict(line: bytes) -> None:
    """Whatever comes, there are words of bounded length; none only for the truth."""
    reply = Reply(line)

    verdict = judge(RUNNER, reply, CHALLENGE)

    assert len(verdict) < 1000
    assert verdict.isprintable()
    if not verdict:
        said = control.read_answer(line)
        assert said[:5] == GOOD[:5]
        assert CHALLENGE.git in said.git.split()
        assert said.model == CHALLENGE.model


@given(
    answer=st.builds(
        ProbeAnswer, *(st.text() for _ in range(4)), st.integers(), st.just(GOOD.heart), st.text(), st.text()
    )
)
def test_nothing_but_the_truth_is_well(answer: ProbeAnswer) -> None:
    """An answer in good form that knows nothing is not believed."""
    assert judge(RUNNER, Reply(line_of(answer)), CHALLENGE) != ""


# The challenge.


@pytest.fixture
def places(tmp_path: Path) -> Paths:
    """A bare repository with a main, and the keep's state."""
    made = Paths(bot=f"{tmp_path}/bot", remote=f"{tmp_path}/remote.git", run=f"{tmp_path}/run", var=f"{tmp_path}/var")
    os.makedirs(made.var)
    git = Git(str(tmp_path))
    git("init", "--quiet", "--bare", made.remote)
    bare = Git(made.remote, WATCHER)
    tree = bare("mktree", stdin=b"")
    bare("update-ref", "refs/heads/main", bare("commit-tree", "-m", "birth", tree))
    return made


def refs_of(places: Paths) -> list[str]:
    return Git(places.remote)("for-each-ref", "--format=%(refname)").splitlines()


def test_a_challenge_leaves_one_ref_and_no_object(places: Paths) -> None:
    """However many were put: an agent is probed for years."""
    objects = Git(places.remote)("count-objects")
    for _ in range(5):
        challenge = probe.put_challenge(places)

    assert refs_of(places) == ["refs/heads/main", f"refs/minifram/probe/{challenge.git}"]
    assert Path(places.probe).read_text() == challenge.model
    assert Git(places.remote)("count-objects") == objects
    assert len(set(challenge)) == 3
    assert os.listdir(places.var) == ["probe"]


def test_what_a_power_cut_left_does_not_stay(places: Paths) -> None:
    """A ref without content, a lock, half a word: gone with the next challenge; other refs of the keep are not."""
    probe.put_challenge(places)
    directory = Path(places.remote, control.REFS)
    (directory / ("0" * 32)).write_text("")
    (directory / ("1" * 32 + ".lock")).write_text("")
    Path(f"{places.probe}.new").write_text("0123")
    Git(places.remote)("update-ref", "refs/minifram/rejected/x", "refs/heads/main")

    challenge = probe.put_challenge(places)

    assert refs_of(places)[1:] == [f"refs/minifram/probe/{challenge.git}", "refs/minifram/rejected/x"]
    assert os.listdir(directory) == [challenge.git]
    assert Path(places.probe).read_text() == challenge.model
    Git(places.remote)("fsck", "--full")


def test_a_challenge_that_cannot_be_put_is_the_keeps_own_trouble(places: Paths, runner: Runner) -> None:
    """Nothing is asked then; with the repository back, it is."""
    os.rename(places.remote, f"{places.remote}.away")
    with pytest.raises(GitError):
        probe.begin(runner, NOW, places)
    os.rename(f"{places.remote}.away", places.remote)

    asked = probe.begin(runner, NOW, places)
    assert asked.deadline == NOW + probe.DOORS_PATIENCE_SECONDS
    assert asked.challenge.git in refs_of(places)[1]
    asked.close()


# With a watcher's own runner and doors.


def runner_of(agent: Agent) -> Runner:
    state = agent.serving()
    return Runner(state.boot_id, state.branch, state.commit, state.runner_pid, state.runner_started)


def verdict_on(agent: Agent, doors: bool = True, seconds: float | None = None) -> str:
    runner = runner_of(agent)
    asked = probe.begin(runner, time.monotonic(), agent.places if doors else None, seconds)
    reply = within(30.0, lambda: asked.look(time.monotonic()), "a reply")
    asked.close()
    return judge(runner, reply, asked.challenge)


def test_a_runner_with_its_doors_is_well(make_agent: Callable[..., Agent]) -> None:
    """The real model door gives out the word, the repository lists the ref."""
    agent = make_agent()
    agent.start()
    runner_of(agent)
    within(30.0, lambda: os.path.exists(agent.places.model_socket), "the model door")

    assert verdict_on(agent) == ""
    assert verdict_on(agent, doors=False) == ""


LIES = {
    "silent=True": "it said SUCCESS, and has not answered since",
    "boot_id='0' * 32": "says it is boot '0000",
    "commit='0' * 40": "says it is commit '0000",
    "hung=True": "last heard of 1000000 s ago",
}


def test_a_lie_is_found(make_agent: Callable[..., Agent]) -> None:
    """Each of which the boot log alone would not have shown: the version does not lead, and the PM reads why."""
    agent = make_agent(settings="timing: {rehearse: false, grace_seconds: 1, boot_seconds: 1.5}\n")
    for number, lie in enumerate(LIES):
        agent.branch(f"lie-{number}", f"lie({lie})\nserve()")
    agent.start()
    state = agent.serving()
    for number, words in enumerate(LIES.values()):
        agent.ask(SignalName.BOOTSTRAP, f"lie-{number}")
        assert "was not healthy within 1.5 s" in agent.told(words)
        state = agent.serving(but=state.boot_id)
        assert [boot.outcome for boot in state.boots if boot.branch == f"lie-{number}"] == ["failed"]
