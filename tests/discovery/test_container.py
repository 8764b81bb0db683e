"""What a command may do to its container, in a real one: the run goes on, and each is an event."""

from __future__ import annotations

import json
import time

import pytest

from bench.sealed.rootless import Rootless
from tests.discovery.site import PROCESSES, PYTHON, Site, block, commands_of, site

pytestmark = pytest.mark.heavy

FORKS = (
    """perl -e 'while ($n < 400 && defined($p = fork)) { $p or sleep 2, exit; $n++ } print "$n\\n"; 1 while wait > 0'"""
)
"""Tells how many processes it could begin."""


def test_a_command_that_forks_for_ever_is_ended_and_the_container_works_again(user: Rootless) -> None:
    """Its bound is seen to hold before."""
    with site(user, forks=True) as place:
        place.orchestrate(
            block("ulimit -u")
            + block(FORKS)
            + block("bomb() { bomb | bomb & }; bomb; sleep 100")
            + block("echo once")
            + block("echo well"),
            "--seconds=4",
        )
        limit, many, bomb, _, well = commands_of(place.last_run())
    assert limit["stdout"] == f"{PROCESSES}\n"
    assert 0 < int(many["stdout"]) < PROCESSES
    assert bomb["timed_out"]
    assert (well["stdout"], well["exit_code"]) == ("well\n", 0)


def test_at_the_time_limit_only_the_processes_of_that_command_end(place: Site) -> None:
    place.orchestrate(
        block("sleep 1000 >/dev/null 2>&1 &") + block("sleep 1001 & env -i sleep 1002 & yes") + block("ps -eo args"),
        "--seconds=3",
        "--output-bytes=10000",
    )
    _, endless, look = commands_of(place.last_run())
    assert (endless["timed_out"], endless["exit_code"], endless["restarted"]) == (True, 124, False)
    assert endless["stdout_bytes"] > 10_000
    assert len(endless["stdout"]) < 10_100
    lines = look["stdout"].splitlines()
    assert "sleep 1000" in lines
    assert not {"sleep 1001", "sleep 1002", "yes"} & set(lines)


def test_a_command_that_deletes_its_home_is_an_event_and_the_next_one_runs(place: Site) -> None:
    place.orchestrate(
        block("touch here; rm -rf /home/agent ~/.[a-z]*; ls -A /home/agent; pwd") + block("echo x > y; ls")
    )
    delete, after = commands_of(place.last_run())
    assert delete["stdout"] == "/home/agent\n"
    assert "cannot remove '/home/agent'" in delete["stderr"]
    assert after["stdout"] == "y\n"


def test_a_command_that_ends_the_containers_main_process_is_an_event(place: Site) -> None:
    place.orchestrate(block("echo kept > kept; echo bye; kill -HUP 1; sleep 20; echo not reached") + block("cat kept"))
    ends, after = commands_of(place.last_run())
    assert (ends["stdout"], ends["restarted"], ends["timed_out"]) == ("bye\n", True, False)
    assert ends["exit_code"] != 0
    assert (after["stdout"], after["restarted"]) == ("kept\n", False)


def test_a_stopped_container_is_started_and_a_removed_one_named(place: Site) -> None:
    place.podman("stop", "--time=0", place.name)
    place.orchestrate(block("echo up"))
    assert commands_of(place.last_run())[0]["stdout"] == "up\n"
    ended = place.orchestrate(block("echo x"), check=False, AGENT_CONTAINER="discovery-test-nobody")
    assert ended.returncode == 4
    assert f"Make it: cd {place.root} && podman-compose up -d --build" in ended.stderr


def test_binary_output_and_large_commands_pass(place: Site) -> None:
    text = "x" * 90_000
    place.orchestrate(block(f"printf {text} | wc -c; head -c 1000 /dev/urandom; printf '\\377'"))
    (event,) = commands_of(place.last_run())
    assert event["stdout"].startswith("90000\n")
    assert event["stdout"].endswith("\ufffd")
    assert event["stdout_bytes"] == 6 + 1001


def test_ctrl_c_ends_the_run_and_the_command_in_the_container(place: Site) -> None:
    words = place.words(PYTHON, "orchestrator/main.py", "--seconds=100")
    before = set((place.root / "runs").glob("2*"))
    with place.user.popen(*words) as process:
        assert process.stdin
        process.stdin.write(block("touch /tmp/there; sleep 1003"))
        process.stdin.flush()
        until = time.monotonic() + 60
        while place.podman("exec", place.name, "test", "-e", "/tmp/there", check=False).returncode:
            assert time.monotonic() < until
        process.send_signal(2)
        process.communicate(timeout=60)
    assert process.returncode == 130
    (run,) = set((place.root / "runs").glob("2*")) - before
    (event,) = commands_of(run)
    assert event["exit_code"] == 130
    assert json.loads((run / "meta.json").read_text())["ended_by"] == "interrupt"
    assert "sleep 1003" not in place.podman("exec", place.name, "ps", "-eo", "args").stdout


def test_a_run_is_played_again_in_a_fresh_container(place: Site) -> None:
    place.orchestrate(block("ls /world; id -un") + block("echo again >> notes; cat notes") + block("echo $HOSTNAME"))
    before = place.podman("ps", "--all", "--format={{.Names}}").stdout
    replay = (PYTHON, "orchestrator/main.py", "--network=none", f"--replay={place.last_run()}")
    ended = place.run(*replay, check=False)
    assert ended.returncode == 1, ended.stderr
    one, two, three, last = ended.stdout.splitlines()
    assert (one, two) == ("step 1: same", "step 2: same")
    assert three.startswith("step 3: stdout: line 1: ")
    assert last == "3 commands, 1 came out differently"
    after = place.podman("ps", "--all", "--format={{.Names}}").stdout
    assert "discovery-replay" not in set(after.split()) - set(before.split())
    assert "discovery-replay" not in place.podman("volume", "ls", "--format={{.Name}}").stdout
