"""A version that can live and hop is fit; one that lost an ability is refused, and its stage is named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import infra
from infra.keep.rehearsal import candidate, verdict
from infra.keep.rehearsal.verdict import TRANSCRIPT_CHARS, WHY_CHARS, RehearsalVerdict, read_verdict
from infra.shared.text import plain
from tests.keep.rehearsal.candidates import BROKEN, ENOUGH_SECONDS, LIVE, SLOW, Bench, make_template
from tests.keep.supervision.agents import within


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_template(str(tmp_path_factory.mktemp("rehearsal")))


@pytest.fixture
def bench(template: str, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(template, str(tmp_path))
    yield made
    made.close()


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

    assert read_verdict(stdout).fit is True
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

    assert read_verdict(stdout).fit is None
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


# What the watcher makes of an answer: total, plain and bounded.


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["fit", "why"]), inner),
    max_leaves=8,
)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode() + b"\n"))
@example(b"")
@example(b"[" * 70_000 + b"\n")
@example(b'{"fit": 1}\n')
@example(b'{"fit": false, "why": {}, "transcript": []}\n')
@example(b'{"fit": false, "why": "\\ud800\\u001b[2J"}\n')
@example(json.dumps({"fit": None, "why": "\x1b" * 10_000, "transcript": "\x1b" * 10_000}).encode())
def test_any_answer_has_a_meaning(said: bytes) -> None:
    """Nothing raises, nothing grows, and a verdict is in the last line."""
    found = read_verdict(said)

    assert len(found.transcript) <= TRANSCRIPT_CHARS
    assert len(found.why) <= WHY_CHARS
    assert all(char.isprintable() or char == "\n" for char in found.why + found.transcript)
    if found.fit is not None:
        assert json.loads(said.rstrip().splitlines()[-1])["fit"] is found.fit


@given(
    st.sampled_from([True, False, None]), st.text(max_size=WHY_CHARS), st.text(max_size=TRANSCRIPT_CHARS), st.binary()
)
def test_what_is_said_is_read_back(fit: bool | None, why: str, transcript: str, before: bytes) -> None:
    """One line, whatever is in it, behind whatever else was said; one that is not whole is none."""
    said = RehearsalVerdict(fit, plain(why), plain(transcript))
    line = msgspec.json.encode(said)

    assert b"\n" not in line
    assert read_verdict(before + b"\n" + line + b"\n") == said
    for cut in range(1, 30):
        assert read_verdict(line[:-cut]).fit is None
