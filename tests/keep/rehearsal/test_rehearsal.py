"""A version that can live and hop is fit; one that lost an ability is refused, and its stage is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

import infra
from infra.keep.rehearsal import candidate, verdict
from infra.keep.rehearsal.verdict import RehearsalVerdict
from tests.keep.rehearsal.candidates import BROKEN, ENOUGH_SECONDS, LIVE, SLOW, Bench
from tests.keep.supervision.agents import within


def test_this_version_is_fit(bench: Bench) -> None:
    """The control of all that follows: an unchanged version lives through all of it."""
    assert bench.rehearse() == RehearsalVerdict(True)


@pytest.mark.fault("F50")
@pytest.mark.heavy
@pytest.mark.parametrize(
    "what", [pytest.param(name, marks=pytest.mark.long) if name == "signals and stays" else name for name in BROKEN]
)
def test_a_version_that_lost_an_ability_is_refused_at_its_stage(bench: Bench, what: str) -> None:
    """Each of these could not live, or could never change itself again. One that hangs, or sits there, is refused when
    its time is over."""
    path, old, new, stage, words = BROKEN[what]
    bench.change(path, old, new)

    found = bench.rehearse(SLOW.get(what, ENOUGH_SECONDS))

    assert found.fit is False, found
    assert found.why.startswith(f"{stage}: "), f"{found.why}\n{found.transcript}"
    assert words in found.why + found.transcript, f"{found.why}\n{found.transcript}"
    assert "boot log:" in found.transcript


LEAVES_CHILDREN = """
    import subprocess
    for _ in range(3):
        subprocess.Popen("setsid sleep 1000 & setsid sleep 1000 &", shell=True, start_new_session=True)
"""


@pytest.mark.heavy
def test_what_a_candidate_started_ends_with_it(bench: Bench) -> None:
    """Also what left its session and its parent; it is no reason to refuse a version, and nothing of it stays."""
    bench.change("infra/runner.py", LIVE, LIVE + LEAVES_CHILDREN)
    process = bench.start()
    bench.until("sleep 1000")  # the control: they were there

    stdout, _ = process.communicate(timeout=120)

    assert verdict.read_verdict(stdout).fit is True
    assert bench.running() == []


KILLS_THE_DOOR = """
    import signal
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read()
        except OSError:
            continue
        if b"infra.model_door" in words and cell.boot.places.run.encode() in words:
            os.kill(int(pid), signal.SIGKILL)
    time.sleep(600)
"""


@pytest.mark.heavy
def test_a_door_that_dies_says_nothing_against_the_candidate(bench: Bench) -> None:
    """Whoever killed it: there is no verdict without both doors."""
    bench.change("infra/runner.py", LIVE, LIVE + KILLS_THE_DOOR)

    found = bench.rehearse()

    assert found.fit is None
    assert "model_door ended with -9" in found.why


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ended_from_outside_it_leaves_no_process_and_no_verdict(bench: Bench, number: signal.Signals) -> None:
    """Doors and candidate end with it; its directory is its caller's to clear."""
    process = bench.start()
    runner = bench.until("infra.runner")
    bench.until("infra.model_door")
    assert runner.ppid() == process.pid

    process.send_signal(number)
    stdout, _ = process.communicate(timeout=30)

    assert verdict.read_verdict(stdout).fit is None
    within(10.0, lambda: not bench.running(), "its processes to end")


def test_surroundings_that_cannot_be_are_no_verdict(bench: Bench) -> None:
    """Nothing of it is the candidate's fault."""
    os.rmdir(bench.scratch)

    found = bench.rehearse()

    assert found.fit is None
    assert "No such file" in found.why
    os.mkdir(bench.scratch)


def test_the_command_is_the_keeps_own_code() -> None:
    """Neither the directory it is started in nor the candidate's files are where modules come from."""
    assert "-P" in verdict.command("0" * 40, "/s", sys.executable, 1.0)
    assert verdict.environment()["PYTHONPATH"] == os.path.dirname(os.path.dirname(infra.__file__))


def test_the_limits_are_those_that_this_machine_allows() -> None:
    """Whatever its hard limits are, a command can be started under them."""
    limits = subprocess.run(
        [*candidate.bounded(), "bash", "-c", "ulimit -f"], capture_output=True, text=True, check=True
    )
    assert limits.stdout == f"{candidate.FILE_BYTES // 1024}\n"
