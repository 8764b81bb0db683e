"""The loop in a stand-in for a container: what is written, what a command may do, and how a run ends."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.cell.loop.waiting import wait_for
from tests.discovery.fake import END, POST, PRE, Fake


def test_a_run_is_written_as_the_document_says(fake: Fake) -> None:
    """Two kinds of line with the document's keys; a refused block lies elsewhere, and is asked for again."""
    text = PRE.format("echo one") + POST + PRE.format("ls\npwd") + PRE.format("echo two; echo bad >&2; exit 3")
    said = fake.run(text)
    assert f"run: {fake.kept}" in said
    one, note, two = fake.lines()
    assert list(one) == list(two) == ["t", "plan", "command", "stdout", "stderr", "exit_code", "latency_s"]
    assert one["plan"] == PRE.format("echo one").strip("\n")
    assert (one["stdout"], one["stderr"], one["exit_code"]) == ("one\n", "", 0)
    assert list(note) == ["t", "post"]
    assert note["post"] == POST.strip("\n")
    assert (two["stdout"], two["stderr"], two["exit_code"]) == ("two\n", "bad\n", 3)
    assert one["t"] < note["t"] < two["t"]
    assert one["latency_s"] > 0
    (refused,) = fake.lines("refused.jsonl")
    assert "ls\npwd" in refused["block"]
    assert "<Command> has 2 lines" in refused["why"]
    assert "<Command>\nONE shell command" in said.split("refused: ")[1], "the right form is shown"
    meta = fake.json("meta.json")
    assert list(meta)[:5] == ["container", "mode", "prompt", "started_at", "ended_at"]
    assert (meta["container"], meta["mode"], meta["ended_by"]) == ("fake", "manual", "empty input")
    assert "<Command>" in meta["prompt"]
    assert meta["started_at"] < meta["ended_at"]


ALIVE = "ps -o stat= -p $(cat {}) | grep -qv Z"


@pytest.mark.fault("D4", "D5")
def test_a_command_is_bounded_in_time_and_output(fake: Fake) -> None:
    """At the limit it ends with its children, not with what an earlier one began; of an output two ends are kept."""
    text = PRE.format("sleep 30 >/dev/null 2>&1 & echo $! > early")
    text += PRE.format("sleep 1001 & echo $! > late; printf 'begin\\377'; yes")
    text += PRE.format(f"{ALIVE.format('early')} && echo early; {ALIVE.format('late')} && echo late; kill $(cat early)")
    fake.run(text, "--seconds=1", "--output-bytes=2000")
    _, endless, look = fake.lines()
    assert endless["exit_code"] == 124
    assert endless["stdout"].startswith("begin\ufffdy\n")
    assert "bytes left out …]" in endless["stdout"]
    assert len(endless["stdout"]) < 2100
    assert look["stdout"] == "early\n"


@pytest.mark.fault("D8")
def test_a_container_that_ends_is_started_and_the_event_is_kept(fake: Fake) -> None:
    """Nothing is executed twice. One that cannot come back ends the run, with its last event."""
    said = fake.run(PRE.format("echo x >> times; echo is not running >&2; " + END) + PRE.format("cat times"))
    ends, after = fake.lines()
    assert (ends["exit_code"], after["stdout"]) == (137, "x\n")
    assert "the container had to be started again" in said
    (fake.place / "second").mkdir()
    second = Fake(fake.place / "second")
    assert "no such container" in second.run(PRE.format('touch "$FAKE/gone"; ' + END), code=1)
    assert [event["exit_code"] for event in second.lines()] == [137]
    assert second.json("meta.json")["ended_by"] == "error"


@pytest.mark.fault("D11")
def test_what_is_missing_is_named_with_what_to_do(fake: Fake) -> None:
    assert "no such container: other" in fake.run("", AGENT_CONTAINER="other", code=1)
    assert "podman-compose up -d --build" in fake.run("", AGENT_CONTAINER="other", code=1)
    assert "there is no program nowhere" in fake.run("", DISCOVERY_ENGINE="nowhere", code=1)
    assert "expected one of manual, replay, minifram" in fake.run("", LLM_MODE="else", code=2)
    (fake.place / "broken").touch()
    assert "Cannot connect to the daemon" in fake.run("", code=1)
    assert not (fake.place / "runs").exists()


@pytest.mark.fault("D12")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_command_runs_still_writes_its_event(fake: Fake, number: signal.Signals) -> None:
    """The command is ended with what it began; an interrupted run is a run."""
    with fake.begin() as process:
        assert process.stdin
        process.stdin.write(PRE.format("echo said; touch there; sleep 1003").encode())
        process.stdin.flush()
        wait_for((fake.place / "home/there").exists, "the command")
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == 0
    (event,) = fake.lines()
    assert (event["stdout"], event["exit_code"]) == ("said\n", 130)
    assert fake.json("meta.json")["ended_by"] == "interrupt"
    assert (fake.place / "started").read_text() == "restart\n"


@pytest.mark.fault("D13")
def test_kill_leaves_a_readable_run(fake: Fake) -> None:
    """An event is on the disk before its result is shown."""
    with fake.begin() as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(PRE.format("echo shown").encode())
        process.stdin.flush()
        while process.stdout.readline() != b"shown\n":
            pass
        process.kill()
    assert [event["stdout"] for event in fake.lines()] == ["shown\n"]
    assert fake.json("meta.json")["ended_at"] is None


@pytest.mark.fault("D12")
def test_a_run_whose_output_nobody_reads_any_more_ends(fake: Fake) -> None:
    with fake.begin(stderr=subprocess.DEVNULL) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(PRE.format("echo one").encode() + PRE.format("echo two").encode())
        process.stdin.close()
        assert process.wait(60) != 0
    assert fake.commands == ["echo one"]
    assert fake.json("meta.json")["ended_by"] == "error"


@pytest.mark.fault("D9")
def test_a_run_is_played_again(fake: Fake) -> None:
    """A line that was cut, as a killed run leaves one, is passed over."""
    fake.run(PRE.format("echo a") + POST + PRE.format("echo b"))
    earlier = fake.kept.rename(fake.place / "earlier")
    with open(earlier / "events.jsonl", "a") as file:
        file.write('{"t": 1, "plan": "<Comm')
    fake.run("", LLM_MODE="replay", DISCOVERY_REPLAY=str(earlier))
    assert (fake.commands, fake.notes) == (["echo a", "echo b"], [])
    assert "DISCOVERY_REPLAY is not set" in fake.run("", LLM_MODE="replay", code=1)
