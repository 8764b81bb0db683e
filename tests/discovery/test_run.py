"""The run and its directory: what is kept whatever happens, limits, and clear errors. The engine is a stand-in."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import main
import pytest
import record
from engine import Engine
from hypothesis import given
from hypothesis import strategies as st
from llm_driver import LLMDriver, Question, Result
from shell import Bounded

from tests.discovery.fake import END, SECONDS, Fake, wait_for
from tests.discovery.site import block, commands_of, lines_of


def meta_of(fake: Fake) -> dict[str, object]:
    found: dict[str, object] = json.loads((fake.only_run() / "meta.json").read_text())
    return found


# --- limits --------------------------------------------------------------------------------------


def test_a_command_that_never_ends_is_ended_and_what_it_said_is_kept(fake: Fake) -> None:
    fake.run(block("echo begun; sleep 1000 & sleep 1000") + block("echo after"), "--seconds=1")
    slow, after = commands_of(fake.only_run())
    assert (slow["stdout"], slow["timed_out"], slow["exit_code"], slow["restarted"]) == ("begun\n", True, 124, False)
    assert 1 <= slow["latency_s"] < SECONDS
    assert (after["stdout"], after["timed_out"]) == ("after\n", False)


def test_only_the_processes_of_that_command_are_ended(fake: Fake) -> None:
    fake.run(
        block("sleep 1000 >/dev/null 2>&1 & echo $! > earlier")
        + block("echo $$ > mine; env -i sleep 1000 & echo $! >> mine; sleep 1000")
        + block("kill -0 $(cat earlier) && echo lives")
        + block("for pid in $(cat mine); do grep -s State: /proc/$pid/status; done")
        + block("kill $(cat earlier)"),
        "--seconds=1",
    )
    _, slow, earlier, mine, _ = commands_of(fake.only_run())
    assert slow["timed_out"]
    assert earlier["stdout"] == "lives\n"
    assert "sleeping" not in mine["stdout"]


def test_endless_output_is_bounded_and_its_true_size_told(fake: Fake) -> None:
    fake.run(block("yes") + block("seq 100000; seq 9 >&2"), "--seconds=1", "--output-bytes=1000")
    endless, much = commands_of(fake.only_run())
    assert endless["timed_out"]
    assert endless["stdout_bytes"] > 100_000
    assert len(endless["stdout"]) < 1100
    assert much["stdout_bytes"] == 588_895
    assert much["stdout"].startswith("1\n2\n3\n")
    assert much["stdout"].endswith("\n99999\n100000\n")
    assert "\n[… 587895 bytes left out …]\n" in much["stdout"]
    assert (much["stderr"], much["stderr_bytes"]) == ("".join(f"{n}\n" for n in range(1, 10)), 18)


def test_a_background_process_that_holds_the_output_does_not_hold_the_run(fake: Fake) -> None:
    fake.run(block("sleep 300 & echo done; echo $! > pid") + block("kill $(cat pid)"), "--seconds=200")
    first, second = commands_of(fake.only_run())
    assert (first["stdout"], first["timed_out"], second["exit_code"]) == ("done\n", False, 0)


@given(st.lists(st.binary(max_size=40)), st.integers(1, 60))
def test_a_bounded_stream_keeps_its_two_ends(parts: list[bytes], limit: int) -> None:
    kept = Bounded(limit)
    for part in parts:
        kept.add(part)
    whole = b"".join(parts)
    assert kept.size == len(whole)
    if len(whole) <= limit // 2 * 2:
        assert kept.text() == whole.decode("utf-8", "replace")
    elif len(whole) > limit + 1:
        assert "bytes left out" in kept.text()
        assert len(kept.text()) <= limit + 40


def test_a_long_stream_is_not_held_whole() -> None:
    kept = Bounded(10)
    for part in (b"12345", b"x" * 100_000, b"x" * 100_000 + b"67890"):
        kept.add(part)
        assert len(kept._tail) < 100_000
    assert kept.text() == "12345\n[… 200000 bytes left out …]\n67890"


@given(st.text(st.sampled_from("aä€😀"), min_size=30), st.integers(8, 60))
def test_the_bound_cuts_no_character_in_two(text: str, limit: int) -> None:
    kept = Bounded(limit)
    kept.add(text.encode())
    assert "\ufffd" not in kept.text()


# --- what ends a container, and a run ------------------------------------------------------------


def test_a_command_that_ends_the_container_is_an_event_and_the_container_comes_back(fake: Fake) -> None:
    fake.run(block(f"echo bye; {END}") + block("echo back"))
    ends, back = commands_of(fake.only_run())
    assert (ends["stdout"], ends["exit_code"], ends["restarted"]) == ("bye\n", 137, True)
    assert (back["stdout"], back["exit_code"], back["restarted"]) == ("back\n", 0, False)


def test_a_container_that_ended_between_two_commands_is_started_for_the_second(fake: Fake) -> None:
    fake.run(
        block('(until [ -e go ]; do sleep 0.01; done; rm "$FAKE/running"; touch done) >/dev/null 2>&1 &')
        + block("touch go; until [ -e done ]; do sleep 0.01; done")
        + block("echo x")
    )
    *_, last = commands_of(fake.only_run())
    assert (last["stdout"], last["exit_code"], last["restarted"]) == ("x\n", 0, True)


def test_a_container_that_cannot_come_back_ends_the_run_with_its_event_kept(fake: Fake) -> None:
    ended = fake.run(block("echo one") + block(f'touch "$FAKE/gone"; echo bye; {END}') + block("echo no"))
    assert ended.returncode == 4
    assert "no such container" in ended.stderr
    assert [event["command"] for event in commands_of(fake.only_run())][:1] == ["echo one"]
    assert commands_of(fake.only_run())[-1]["stdout"] == "bye\n"
    assert "no such container" in str(meta_of(fake)["ended_by"])
    assert meta_of(fake)["ended_at"]


def test_a_stopped_container_is_started(fake: Fake) -> None:
    (fake.place / "running").unlink()
    fake.run(block("echo x"))
    (event,) = commands_of(fake.only_run())
    assert (event["stdout"], event["restarted"]) == ("x\n", False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_command_runs_still_writes_its_event(fake: Fake, number: signal.Signals) -> None:
    with fake.begin("--seconds=100") as process:
        assert process.stdin
        process.stdin.write(block("echo begun; touch there; sleep 1000"))
        process.stdin.flush()
        wait_for(fake.home / "there")
        process.send_signal(number)
        _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 128 + number
    assert f"the run is complete: {fake.only_run()}" in errors
    (event,) = commands_of(fake.only_run())
    assert (event["stdout"], event["exit_code"], event["timed_out"]) == ("begun\n", 130, False)
    assert meta_of(fake)["ended_by"] == "interrupt"
    assert meta_of(fake)["ended_at"]
    assert (fake.only_run() / "home.tar").exists()


def test_a_signal_while_the_home_is_copied_ends_the_run_before_the_questions(fake: Fake) -> None:
    """A model would be asked them for money, and a person would have to press Ctrl-C again."""
    engine = fake.place / "bin/podman"
    wait = 'cp) : >"$FAKE/copying"; until [ -e "$FAKE/go" ]; do sleep 0.05; done; tar'
    engine.write_text(engine.read_text().replace("cp) tar", wait))
    questions = [{"id": "q", "text": "how many?"}]
    (fake.place / "known.json").write_text(json.dumps({"version": 1, "questions": questions}))
    with fake.begin() as process:
        assert process.stdin
        process.stdin.write(block("echo x") + ".\n.\n")
        process.stdin.flush()
        wait_for(fake.place / "copying")
        process.send_signal(signal.SIGINT)
        (fake.place / "go").touch()
        process.wait(SECONDS)
        out, err = process.communicate()
    assert process.returncode == 130
    assert "how many?" not in out
    assert "the run is complete" in err
    assert meta_of(fake)["ended_at"]
    assert (fake.only_run() / "home.tar").stat().st_size > 0


def test_a_run_whose_output_nobody_reads_any_more_ends(fake: Fake) -> None:
    with fake.begin() as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(block("seq 100000"))
        process.stdin.flush()
        assert process.wait(SECONDS) == 141
        assert process.stderr
        assert process.stderr.read() == ""
    assert len(commands_of(fake.only_run())) == 1
    assert "BrokenPipe" in str(meta_of(fake)["ended_by"])


def test_kill_leaves_a_readable_run(fake: Fake) -> None:
    with fake.begin("--seconds=100") as process:
        assert process.stdin
        process.stdin.write(block("echo one") + block("echo $$ > pid; touch there; exec sleep 1000"))
        process.stdin.flush()
        wait_for(fake.home / "there")
        process.kill()
        process.communicate(timeout=SECONDS)
    os.kill(int((fake.home / "pid").read_text()), signal.SIGKILL)
    assert [event["stdout"] for event in commands_of(fake.only_run())] == ["one\n"]
    meta = meta_of(fake)
    assert (meta["ended_at"], meta["ended_by"]) == (None, None)
    assert record.read_meta(fake.only_run())["container"] == "fake"


def test_an_event_is_on_the_disk_before_its_result_is_shown(fake: Fake) -> None:
    with fake.begin() as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(block("echo shown"))
        process.stdin.flush()
        for line in process.stdout:
            if line == "shown\n":
                break
        assert commands_of(fake.only_run())[0]["stdout"] == "shown\n"
        process.kill()


def test_a_home_larger_than_the_bound_is_cut_and_told(tmp_path: Path, fake: Fake) -> None:
    fake.home.mkdir()
    (fake.home / "big").write_bytes(b"x" * 300_000)
    with open(tmp_path / "some.tar", "wb") as file:
        assert Engine(str(fake.place / "bin/podman")).copy("fake", "/home/agent", file, 100_000) > 100_000
    assert (tmp_path / "some.tar").stat().st_size == 100_000


def test_the_home_is_kept_at_the_end(fake: Fake) -> None:
    fake.run(block("echo found > MAP.md"))
    home = fake.only_run() / "home.tar"
    assert b"found\n" in home.read_bytes()
    assert meta_of(fake)["home_tar"] == {"bytes": home.stat().st_size, "cut": False}


# --- drivers -------------------------------------------------------------------------------------


class Scripted(LLMDriver):
    """Gives its blocks, and remembers what it was told."""

    mode = "scripted"
    model = "scripted"
    usd = 0.25
    tokens = 10

    def __init__(self, *blocks: str) -> None:
        self.blocks = list(blocks)
        self.told: list[object] = []

    def decide(self, last: Result | None) -> str:
        self.told.append(last and (last.step, last.stdout))
        return self.blocks.pop(0) if self.blocks else ""

    def refused(self, plan: str, error: str) -> None:
        self.told.append(error.partition(".\n")[0])

    def note(self, result: Result) -> str:
        return f"<Observation>\n{result.stdout}" if result.step == 1 else ""

    def answer(self, questions: list[Question]) -> dict[str, str]:
        return {question.id: question.text for question in questions}


def whole(command: str) -> str:
    return block(command).removesuffix(".\n")


def options_of(fake: Fake, **more: int) -> main.Options:
    engine = Engine(str(fake.place / "bin/podman"))
    return main.Options("fake", fake.runs, engine=engine, **more)  # type: ignore[arg-type]


def test_another_driver_is_told_of_results_and_refusals(fake: Fake) -> None:
    driver = Scripted(whole("echo 1"), "what?", whole("echo 2"))
    run = main.run(driver, options_of(fake))
    assert driver.told == [None, (1, "1\n"), "there is no <Command> section", (1, "1\n"), (2, "2\n")]
    first, note, second = lines_of(run / "events.jsonl")
    assert (first["usd"], first["tokens"], second["usd"]) == (0.25, 10, 0.25)
    assert note["post"] == "<Observation>\n1\n"
    assert (meta_of(fake)["mode"], meta_of(fake)["model"], meta_of(fake)["ended_by"]) == (
        "scripted",
        "scripted",
        "empty input",
    )


def test_a_run_ends_at_its_bound_of_steps(fake: Fake) -> None:
    run = main.run(Scripted(*[whole("echo x")] * 9), options_of(fake, steps=3))
    assert len(commands_of(run)) == 3
    assert meta_of(fake)["ended_by"] == "steps"


def test_a_driver_that_fails_leaves_a_run_that_says_so(fake: Fake) -> None:
    class Failing(Scripted):
        def note(self, result: Result) -> str:
            raise ValueError("no idea")

    with pytest.raises(ValueError, match="no idea"):
        main.run(Failing(whole("echo 1")), options_of(fake))
    assert len(commands_of(fake.only_run())) == 1
    assert meta_of(fake)["ended_by"] == "ValueError: no idea"


def test_what_is_read_when_asked_is_not_explored(fake: Fake) -> None:
    """What the witness saw is written down before the first question is asked."""
    lines: list[object] = []

    class Asked(Scripted):
        def answer(self, questions: list[Question]) -> dict[str, str]:
            lines.extend(line.get("step", "first") for line in lines_of(fake.only_run() / "witness.jsonl"))
            return {}

    facts = {"version": 1, "questions": [{"id": "q", "text": "Which?"}]}
    (fake.place / "known.json").write_text(json.dumps(facts))
    run = main.run(Asked(whole("echo 1")), options_of(fake))
    assert lines == ["first", 1, None] == [line.get("step", "first") for line in lines_of(run / "witness.jsonl")]


def test_a_world_with_the_list_in_it_is_refused(fake: Fake) -> None:
    """Who mounts the directory that the generator made, and not the one in it, would hand out the answers."""
    (fake.place / "world/known.json").write_text("{}")
    ended = fake.run(block("echo x"))
    assert ended.returncode == 4
    assert "has known.json in it" in ended.stderr
    assert not list(fake.runs.glob("2*"))


# --- what cannot begin ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "words", "code", "error"),
    [
        ({"DISCOVERY_ENGINE": "dockre"}, (), 3, "DISCOVERY_ENGINE is 'dockre', and there is no such program"),
        ({"DISCOVERY_ENGINE": "", "PATH": "/nowhere"}, (), 3, "neither docker nor podman is on PATH"),
        ({"AGENT_CONTAINER": "nobody"}, (), 4, "no container nobody. Make it: cd "),
        ({"AGENT_CONTAINER": "--all"}, (), 4, "AGENT_CONTAINER is '--all'; a container's name has"),
        ({"LLM_MODE": "oracle"}, (), 2, "LLM_MODE is 'oracle'; expected one of manual, minifram"),
        ({}, ("--runs=/proc/nothing",), 5, "--runs names another"),
        ({}, ("--known=/nothing.json",), 5, "there is no file /nothing.json"),
        ({}, ("--world=/nowhere",), 4, "--world is /nowhere. Make the container with that world"),
        ({"DISCOVERY_WORLD": "/no"}, (), 4, "DISCOVERY_WORLD=/no podman-compose up -d"),
        ({"DISCOVERY_STEPS": "0"}, (), 2, "argument --steps: '0' is not above 0"),
        ({}, ("--seconds=0",), 2, "above 0"),
        ({}, ("--replay=/nowhere",), 5, "/nowhere is no directory of a run"),
    ],
)
def test_what_is_missing_is_named_with_what_to_do(
    fake: Fake, environ: dict[str, str], words: tuple[str, ...], code: int, error: str
) -> None:
    ended = fake.run("", *words, **environ)
    assert error in ended.stderr
    assert ended.returncode == code
    assert "Traceback" not in ended.stderr


def test_how_to_make_the_container_is_told(fake: Fake) -> None:
    assert "podman-compose up -d --build" in fake.run("", AGENT_CONTAINER="nobody").stderr


def test_an_engine_that_does_not_answer_is_told(fake: Fake) -> None:
    (fake.place / "broken").touch()
    ended = fake.run("")
    assert ended.returncode == 3
    assert "podman does not answer: Cannot connect to the daemon." in ended.stderr


def test_a_container_of_something_else_has_taken_the_name(fake: Fake) -> None:
    (fake.place / "mounts").write_text("")
    ended = fake.run("")
    assert ended.returncode == 4
    assert "has taken the name. Choose another: AGENT_CONTAINER=another-name" in ended.stderr


def test_one_run_at_a_time_in_a_container(fake: Fake) -> None:
    with fake.begin() as process:
        assert process.stdout
        process.stdout.readline()
        ended = fake.run(block("echo x"))
        process.kill()
    assert ended.returncode == 5
    assert "another run is at work in the container fake" in ended.stderr


def test_two_runs_of_one_moment_have_two_directories(tmp_path: Path) -> None:
    made = {record.Record(tmp_path, {}).path for _ in range(5)}
    assert len(made) == 5


def test_help_tells_the_exit_codes(fake: Fake) -> None:
    assert "no container engine" in fake.run("", "--help").stdout
