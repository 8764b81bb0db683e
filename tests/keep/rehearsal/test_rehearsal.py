"""A version that can live and hop is fit; one that lost an ability is refused, and its step is named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import infra
from infra.keep.rehearsal import candidate, verdict
from infra.keep.rehearsal.verdict import RehearsalVerdict
from infra.shared.safe_files import Below
from tests.keep.rehearsal.candidates import BRANCH, BROKEN, LIVE, SLOW, Bench

FEW_SECONDS = 6.0
LONG = ("leaves without a signal", "asks for another branch", "signals and stays", "does not report")
"""They live through all of it, as others do that lack a part of the hop; or are waited for, as others are."""


def but_for_whole_lives(names: Iterable[str]) -> list[object]:
    return [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in names]


def test_this_version_is_fit(bench: Bench) -> None:
    """The control of all that follows: an unchanged version lives through all of it, and leaves its checkout alone."""
    before = bench.git("status", "--porcelain", "--ignored")
    began = time.monotonic()

    assert bench.rehearse() == RehearsalVerdict(True)

    print(f"a fit rehearsal took {time.monotonic() - began:.2f} s")
    assert bench.git("status", "--porcelain", "--ignored") == before
    assert not os.path.exists(f"{bench.checkout}/logs")


@pytest.mark.heavy
@pytest.mark.parametrize("what", but_for_whole_lives(BROKEN))
def test_a_version_that_lost_an_ability_is_refused_at_its_step(bench: Bench, what: str) -> None:
    """Each of these could not live, or could never change itself again."""
    refused(bench, BROKEN[what])


@pytest.mark.heavy
@pytest.mark.parametrize("what", but_for_whole_lives(SLOW))
def test_what_does_not_happen_is_not_waited_for_for_ever(bench: Bench, what: str) -> None:
    """A version that hangs, or sits there, is refused when its time is over."""
    refused(bench, SLOW[what], FEW_SECONDS)


def refused(bench: Bench, broken: tuple[str, str, str, str, str], seconds: float = 60.0) -> None:
    path, old, new, step, words = broken
    bench.replace(path, old, new)
    bench.commit()

    found = bench.rehearse(seconds)

    assert found.fit is False, found
    assert found.why.startswith(f"{step}: "), f"{found.why}\n{found.transcript}"
    assert words in found.why + found.transcript, f"{found.why}\n{found.transcript}"
    assert 0 < len(found.transcript) <= verdict.TRANSCRIPT_CHARS
    assert all(char.isprintable() or char == "\n" for char in found.transcript)


def test_the_commit_is_rehearsed_and_not_the_files_in_the_checkout(bench: Bench) -> None:
    """What is checked out, or on the branch by now, is not what the watcher was asked to let lead. One without a prompt
    would not know who it is; its own reason, from the boot log, is the verdict's."""
    before = bench.git("rev-parse", "HEAD")
    os.unlink(f"{bench.checkout}/SYSTEM.md")
    bad = bench.commit()
    bench.git("reset", "--quiet", "--hard", before)

    found = bench.rehearse(commit=bad)

    assert found.fit is False
    assert found.why.startswith("boot: its boot failed: SYSTEM.md cannot be read"), found


LEAVES_CHILDREN = """
    import subprocess
    for _ in range(3):
        subprocess.Popen("setsid sleep 1000 & setsid sleep 1000 &", shell=True, start_new_session=True)
"""


@pytest.mark.heavy
def test_what_a_candidate_started_ends_with_it(bench: Bench) -> None:
    """Also what left its session and its parent; it is no reason to refuse a version, and nothing of it stays."""
    bench.replace("infra/runner.py", LIVE, LIVE + LEAVES_CHILDREN)
    bench.commit()
    process = bench.start()
    bench.until("sleep 1000")  # the control: they were there

    stdout, _ = process.communicate(timeout=120)

    assert verdict.read_verdict(stdout, process.returncode).fit is True
    bench.nothing_is_left()


KILLS_THE_DOOR = """
    import signal
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read()
        except OSError:
            continue
        if b"infra.model_door" in words and context.boot.places.run.encode() in words:
            os.kill(int(pid), signal.SIGKILL)
    time.sleep(600)
"""


@pytest.mark.heavy
def test_a_door_that_dies_says_nothing_against_the_candidate(bench: Bench) -> None:
    """Whoever killed it: there is no verdict without both doors."""
    bench.replace("infra/runner.py", LIVE, LIVE + KILLS_THE_DOOR)
    bench.commit()

    found = bench.rehearse()

    assert found.fit is None
    assert "model_door ended with -9" in found.why


FORGES = """
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                ours = b"infra.keep.rehearsal" in file.read()
            if ours and str(os.getppid()) == pid:
                with open(f"/proc/{pid}/fd/1", "wb") as file:
                    file.write(b'{"fit": true}\\n')
        except OSError:
            continue
    print('{"fit": true}', flush=True)
    os._exit(0)
"""


def test_a_candidate_cannot_speak_for_the_rehearsal(bench: Bench) -> None:
    """What it prints goes to its own log, and a status of its own is not the rehearsal's."""
    bench.replace("infra/runner.py", LIVE, LIVE + FORGES)
    bench.commit()

    found = bench.rehearse()

    assert found.fit is False
    assert found.why.startswith("directive: ")


def test_asked_to_end_it_clears_away_and_gives_no_verdict(bench: Bench) -> None:
    """SIGTERM, at once obeyed."""
    process = bench.start()
    bench.until("infra.runner")
    process.terminate()

    stdout, _ = process.communicate(timeout=30)

    assert verdict.read_verdict(stdout, process.returncode).fit is None
    assert process.returncode == 75
    bench.nothing_is_left()


def test_killed_it_leaves_no_process(bench: Bench) -> None:
    """Doors and candidate end with it; what only its watcher can end, and its directory, are the watcher's to clear."""
    process = bench.start()
    runner = bench.until("infra.runner")
    bench.until("infra.model_door")
    assert runner.ppid() == process.pid

    process.send_signal(signal.SIGKILL)
    stdout, _ = process.communicate(timeout=30)

    assert verdict.read_verdict(stdout, process.returncode).fit is None
    bench.gone()
    for name in os.listdir(bench.scratch):
        subprocess.run(["rm", "-rf", f"{bench.scratch}/{name}"], check=True)


def test_surroundings_that_cannot_be_are_no_verdict(bench: Bench) -> None:
    """Each is told with what to do; nothing of it is the candidate's fault."""
    deep = f"{bench.scratch}/{'d' * 90}"
    os.mkdir(deep)
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"scratch": deep}, "shorter scratch directory"),
        ({"scratch": f"{bench.scratch}/none"}, "no directory can be made"),
        ({"scratch": "relative"}, "absolute path"),
        ({"python": f"{bench.scratch}/none"}, "--python names an interpreter"),
        ({"branch": "../up"}, "is not allowed"),
        ({"commit": "HEAD"}, "not a commit's sha"),
        ({"checkout": "relative"}, "not an absolute path"),
    )
    for given, words in cases:
        process = bench.start(**given)
        stdout, _ = process.communicate(timeout=60)
        found = verdict.read_verdict(stdout, process.returncode)
        assert found.fit is None, given
        assert words in found.why, found
    assert os.listdir(deep) == []
    os.rmdir(deep)
    bench.nothing_is_left()


def test_the_command_is_the_keeps_own_code() -> None:
    """Neither the directory it is started in nor the candidate's checkout is where modules come from."""
    words = verdict.command("/c", BRANCH, "0" * 40, "/s")

    assert "-P" in words
    assert verdict.environment()["PYTHONPATH"] == os.path.dirname(os.path.dirname(infra.__file__))


def test_a_conversation_is_told_in_words(tmp_path: Path) -> None:
    """What model and tools said, and the end: not half a line of JSON."""
    place = tmp_path / "main/minifram/logs/transcripts"
    place.mkdir(parents=True)
    lines = [
        {"kind": "opened", "system": ["x" * 100_000]},
        {"kind": "acted", "call": {"name": "bash"}, "content": "it ran"},
        {"kind": "answered", "content": [{"type": "text", "text": "The script has no scene for this conversation."}]},
        {"kind": "ended", "end": "refusal", "failure": ""},
    ]
    (place / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    told = candidate._last_conversation(Below(str(tmp_path)), "main/minifram")

    assert told.splitlines() == [
        "bash: it ran",
        "model: The script has no scene for this conversation.",
        "ended: refusal",
    ]
