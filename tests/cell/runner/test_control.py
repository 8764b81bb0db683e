"""A living runner answers probes: who it is, when its main loop was last heard of, and what the doors told it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.cell.loop.interruption import Interrupted
from infra.cell.runner import examination, hop, run, work
from infra.cell.runner.context import RunnerContext
from infra.cell.runner.control import LiveHeartbeat, answer, answer_probes
from infra.keep.supervision.probe import Reply, judge_doors, put_challenge
from infra.shared import control
from infra.shared.control import Heartbeat, ProbeAnswer, ProbeQuestion
from infra.shared.conversation import Completion, Request
from infra.shared.exit_codes import Exit
from infra.shared.requests import Examination
from infra.shared.sockets import control_address, listen
from tests.cell.loop.replies import bash, calls, says
from tests.cell.loop.waiting import wait_for
from tests.cell.runner.cell import Cell, Runner, limits, read, write
from tests.keep.git_door.git_server import Server

NONCE = "f" * 32


def connected(boot_id: str) -> socket.socket:
    wire = socket.socket(socket.AF_UNIX)
    try:
        wire.settimeout(20.0)
        wire.connect(control_address(boot_id))
    except BaseException:
        wire.close()
        raise
    return wire


def asked(boot_id: str, doors: bool = False) -> ProbeAnswer:
    """What is answered to a plain question."""
    with connected(boot_id) as wire:
        wire.sendall(control.question_line(ProbeQuestion(NONCE, doors)))
        received = b"".join(iter(lambda: wire.recv(65536), b""))
    line, end, rest = received.partition(b"\n")
    assert (end, rest) == (b"\n", b"")
    return control.read_answer(line)


def is_of(answer: ProbeAnswer, run: Runner) -> bool:
    boot = run.boot
    known = (answer.probe, answer.boot_id, answer.branch, answer.commit, answer.pid)
    return known == (NONCE, boot.id, boot.branch, boot.commit, run.process.pid)


def test_a_runner_says_who_it_is_and_what_it_does(cell: Cell) -> None:
    """Boot, branch, commit and process are what the watcher launched; asleep, it is heard of again after the tick."""
    run = cell.start(cell.boot())
    run.sleeps()

    wait_for(lambda: asked(run.boot.id).heart.doing == "sleeping", "sleeping")

    said = asked(run.boot.id)
    assert is_of(said, run)
    assert said.heart.age <= said.heart.within <= control.longest_promise(run.boot.limits)
    assert (said.git, said.model, said.trouble) == ("", "", "")


def test_it_answers_before_it_says_success(cell: Cell) -> None:
    """So whoever has read SUCCESS may ask at once; here the boot still waits for a door."""
    cell.open_doors()
    os.rename(cell.places.git_socket, f"{cell.places.run}/away")
    run = cell.start(cell.boot())

    def answers() -> bool:
        try:
            return is_of(asked(run.boot.id), run)
        except ConnectionRefusedError:
            return False

    wait_for(answers, "an answer")
    assert asked(run.boot.id).heart.doing == "booting"
    assert run.words() == ["BOOTSTRAPPING"]
    os.rename(f"{cell.places.run}/away", cell.places.git_socket)
    run.serves()


def test_the_doors_are_really_used(cell: Cell) -> None:
    """What the watcher put behind each is known to the answer, of this question and not of the one before."""
    os.makedirs(cell.places.var, exist_ok=True)
    run = cell.start(cell.boot())
    run.serves()
    before = put_challenge(cell.places)
    challenge = put_challenge(cell.places)

    said = asked(run.boot.id, doors=True)

    assert is_of(said, run)
    assert (said.git, said.model, said.trouble) == (challenge.git, challenge.model, "")
    assert judge_doors(Reply(control.answer_line(said)[:-1]), challenge) == ""
    assert "git door" in judge_doors(Reply(control.answer_line(said)[:-1]), before)


def test_the_git_door_of_the_container_tells_the_same(cell: Cell) -> None:
    """`git daemon` on loopback, which hides all else of the keep's refs."""
    root = tempfile.mkdtemp(prefix="minifram-door-")
    server = Server(Path(root))
    try:
        os.makedirs(server.world.places.var, exist_ok=True)
        challenge = put_challenge(server.world.places)

        said = answer(ProbeQuestion(NONCE, True), cell.boot(remote_url=server.url), LiveHeartbeat())

        assert said.git == challenge.git
        assert said.trouble.startswith("model door: ")  # the control: that one's word lies in another place
    finally:
        server.end()
        shutil.rmtree(root)


def test_a_door_that_fails_is_named_and_the_other_still_used(cell: Cell) -> None:
    """The answer comes all the same, in time."""
    os.makedirs(cell.places.var, exist_ok=True)
    run = cell.start(cell.boot())
    run.serves()
    challenge = put_challenge(cell.places)
    os.rename(cell.places.model_socket, f"{cell.places.run}/away")
    said = asked(run.boot.id, doors=True)
    assert (said.git, said.model) == (challenge.git, "")
    assert said.trouble.startswith("model door: DoorAway")

    with listen(cell.places.model_socket):  # takes the connection, says nothing
        said = answer(ProbeQuestion(NONCE, True), run.boot, LiveHeartbeat(), door_seconds=0.5)
    assert said.trouble.startswith("model door: DoorAway")
    os.unlink(cell.places.model_socket)
    os.rename(f"{cell.places.run}/away", cell.places.model_socket)

    os.rename(cell.places.remote, f"{cell.places.remote}.away")
    said = asked(run.boot.id, doors=True)
    assert (said.git, said.model) == ("", challenge.model)
    assert said.trouble.startswith("git door: GitError")
    os.rename(f"{cell.places.remote}.away", cell.places.remote)

    assert asked(run.boot.id, doors=True)[-3:] == (challenge.git, challenge.model, "")


def test_odd_callers_keep_nobody_from_an_answer(cell: Cell, capfd: pytest.CaptureFixture[str]) -> None:
    """Silent ones, such as leave, half a line, no JSON, no end: each is let go, and the next one is answered."""
    boot = cell.boot()
    answer_probes(boot, LiveHeartbeat(), question_seconds=0.1)
    silent = connected(boot.id)
    connected(boot.id).close()
    half = connected(boot.id)
    half.sendall(b'{"probe": ')
    odd = connected(boot.id)
    odd.sendall(b"[]\n")
    assert odd.recv(100) == b""
    endless = connected(boot.id)
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        endless.sendall(b" " * (1 << 24))

    assert asked(boot.id).pid == os.getpid()
    for wire in (silent, half, odd, endless):
        wire.close()
    assert "a probe was not answered" not in capfd.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as somebody else")
def test_other_users_get_no_answer(cell: Cell) -> None:
    """An abstract socket is open to everybody on the machine; only the runner's user and root are answered."""
    run = cell.start(cell.boot())
    run.serves()
    ask = (
        "import os, socket, sys\n"
        "os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(*[int(sys.argv[2])] * 3)\n"
        "wire = socket.socket(socket.AF_UNIX); wire.connect('\\0' + sys.argv[1])\n"
        "try:\n"
        "    wire.sendall(sys.argv[3].encode() + b'\\n'); print(len(wire.recv(65536)))\n"
        "except (BrokenPipeError, ConnectionResetError): print(0)\n"
    )

    def heard(uid: int) -> int:
        question = control.question_line(ProbeQuestion(NONCE, False)).decode().strip()
        words = [sys.executable, "-c", ask, control_address(run.boot.id)[1:], str(uid), question]
        return int(subprocess.run(words, capture_output=True, check=True, text=True).stdout)

    assert heard(65534) == 0
    assert heard(0) > 100


def test_a_name_that_is_taken_ends_the_boot(cell: Cell) -> None:
    """Nobody else may answer for a runner that serves; it says nothing against the version."""
    value = cell.boot()
    with socket.socket(socket.AF_UNIX) as squatter:
        squatter.bind(control_address(value.id))
        run = cell.start(value)
        assert run.ended() == Exit.UNAVAILABLE
    assert "probes cannot be answered" in run.lines()[-1].details["reason"]

    cell.start(value).serves()


HANGING = """
def until_handed_over(context: RunnerContext) -> Exit:
    context.heartbeat.beat("hanging", 0.0)
    while True:
        pass
"""


def test_a_main_loop_that_hangs_breaks_its_promise(cell: Cell) -> None:
    """The thread answers on, and what it says is the main loop's, not its own."""
    path = f"{cell.checkout}/infra/cell/runner/work.py"
    write(path, read(path).replace("def until_handed_over(", f"{HANGING}\n\ndef unused("))
    path = f"{cell.checkout}/infra/shared/control.py"
    write(path, read(path).replace("SLACK_SECONDS = 60.0", "SLACK_SECONDS = 0.2"))
    run = cell.start(cell.boot())
    run.serves()

    wait_for(lambda: asked(run.boot.id).heart.doing == "hanging", "the hang")
    wait_for(lambda: (said := asked(run.boot.id).heart).age > said.within, "a broken promise")
    assert is_of(asked(run.boot.id), run)


def test_a_beat_is_a_promise_with_slack() -> None:
    """Time since the last one grows; the next one begins anew; a promise into the past is the slack alone."""
    clock = [100.0]
    heart = LiveHeartbeat(lambda: clock[0])
    heart.beat("working", 30.0)
    clock[0] += 25.0

    assert heart.snapshot() == Heartbeat("working", 25.0, 30.0 + control.SLACK_SECONDS)

    heart.beat("sleeping", -5.0)
    assert heart.snapshot() == Heartbeat("sleeping", 0.0, control.SLACK_SECONDS)


class Recording(LiveHeartbeat):
    def __init__(self) -> None:
        self.beats: list[tuple[str, float]] = []
        super().__init__()

    def beat(self, doing: str, seconds: float) -> None:
        self.beats.append((doing, seconds))
        super().beat(doing, seconds)

    def words(self) -> list[str]:
        return [doing for doing, _ in self.beats]


def recorded(context: RunnerContext) -> tuple[RunnerContext, Recording]:
    heart = Recording()
    return context._replace(heartbeat=heart), heart


def model_of(*replies: Completion | Callable[[], Completion]) -> Callable[[Request], Completion]:
    left = iter(replies)

    def ask(_: Request) -> Completion:
        reply = next(left)
        return reply() if callable(reply) else reply

    return ask


def test_a_unit_of_work_beats_at_each_step(cell: Cell) -> None:
    """Before each model call with its bound, before each tool with the longest one, and before the report."""
    seen: list[str] = []

    def looks() -> Completion:
        seen.append(heart.snapshot().doing)
        return calls(bash("true"))

    cell.tell("do it")
    context, heart = recorded(
        cell.context(model_of(looks, says("done")), limits=limits(run_seconds=25, bash_seconds=2000))
    )
    page = context.page.look()
    heart.beats.clear()

    run.work_on(context, page, page.open, None, look_back=False)

    assert seen == ["asking the model"]
    used_a_tool, spoke = ["asking the model", *["working"] * 3], ["asking the model", "working"]
    assert heart.words() == [*used_a_tool, *spoke, "reporting"]
    assert ("asking the model", 25) in heart.beats
    assert ("working", 2000) in heart.beats


def test_looking_and_sleeping_beat(cell: Cell) -> None:
    """The work loop on main, until it is asked to end: it looks, and promises to be back at the tick."""
    cell.open_doors()
    context, heart = recorded(cell.context(limits=limits(work_seconds=1e6)))
    heart.beats.clear()

    class Ending(LiveHeartbeat):
        def beat(self, doing: str, seconds: float) -> None:
            heart.beat(doing, seconds)
            if doing == "sleeping":
                context.interruption.asked = True

    with pytest.raises(Interrupted):
        work.until_handed_over(context._replace(heartbeat=Ending()))

    assert heart.words()[-2:] == ["looking", "sleeping"]
    assert 0 < heart.beats[-1][1] <= 1e6


def test_a_hop_beats_while_it_awaits_its_examination(cell: Cell) -> None:
    """All promises of a whole hop are such as the watcher believes."""
    cell.branch("improve", {"src/notes.md": "better\n"})
    value = cell.boot("improve", limits=limits(validation_seconds=50))
    context, heart = recorded(cell.context())
    context = context._replace(boot=value, checkout=cell.places.checkout("improve"))
    os.makedirs(f"{context.checkout}/logs", exist_ok=True)
    heart.beats.clear()

    assert not examination.wait(context, context.head(), lambda *_: Examination("examined", {"passed": False})).passed
    hop.prove_and_hand_over(context)

    assert "awaiting its examination" in heart.words()
    promises = max(seconds for _, seconds in heart.beats) + control.SLACK_SECONDS
    assert promises <= control.longest_promise(value.limits)
