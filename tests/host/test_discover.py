"""`minifram discover` with a stand-in for the engine: the whole of a run, what it leaves, and what it never touches."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from host.discovery import engine as engines
from host.paths import discovery_paths
from host.project import first_files, image_files
from infra.shared.exit_codes import Exit
from infra.shared.providers import VARIABLES
from tests.host.desk import PROJECT, Desk, Ended, wait_for
from tests.host.discover_engine import StandIn
from tests.keep.model_door.wire import Answer, Counts, Say, Status, Wire

KEY = "sk-ant-discovery-0123456789abcdef"
AGENTS_KEY = "sk-ant-of-the-agent-0123456789"


def block(command: str) -> str:
    return f"<Intent>\nto see\n\n<Command>\n{command}\n\n<Expected>\nnames\n\n<OnError>\nstop"


def note(text: str) -> str:
    return f"<Observation>\n{text}\n\n<Inference>\nit is so\n\n<Next>\ngo on"


REPLIES = [block("ls /"), f"{note('one')}\n\n{block('echo two')}", f"{note('two')}\n\n{block('false')}"]
REPLIES += [f"{note('three')}\n\n<Done>", "no answers"]


class Discovery:
    """A desk with an engine, and discovery's own settings."""

    def __init__(self, desk: Desk, stand_in: StandIn, run: str) -> None:
        self.desk = desk
        self.engine = stand_in
        shutil.copytree(PROJECT / "discovery", desk.project / "discovery", ignore=shutil.ignore_patterns("2*Z"))
        shutil.rmtree(desk.project / "infra")
        # With its bytecode, which stays valid as the times do: each door would compile itself anew, for a second.
        shutil.copytree(PROJECT / "infra", desk.project / "infra", ignore=shutil.ignore_patterns("logs"))
        # A unix socket's path is short, and pytest's directories are not.
        desk.environ |= {"PATH": f"{stand_in.programs}:{desk.environ['PATH']}", "XDG_RUNTIME_DIR": run}
        self.places = discovery_paths(desk.environ, os.getuid())

    def settings(self, **sections: Any) -> None:
        Path(self.places.settings).parent.mkdir(parents=True, exist_ok=True)
        Path(self.places.settings).write_text(yaml.safe_dump(sections))

    def script(self, *replies: str, **first: Any) -> None:
        """A scripted model, whose script lies beside the settings."""
        scenes = [{"name": "explore", "replies": [{"text": reply} | first for reply in replies]}]
        self.settings(model={"provider": "scripted", "script": "script.yaml"})
        Path(self.places.settings).with_name("script.yaml").write_text(json.dumps({"scenes": scenes}))

    def run(self, *words: str, **environ: str) -> Ended:
        return self.desk.run("discover", *words, **environ)

    def done(self, *words: str, **environ: str) -> Ended:
        ended = self.run(*words, **environ)
        assert ended.code == 0, ended
        return ended

    def runs(self) -> list[Path]:
        return sorted(Path(self.places.runs).glob("2*"))


@pytest.fixture
def discovery(bare_desk: Desk, tmp_path: Path) -> Iterator[Discovery]:
    with tempfile.TemporaryDirectory(prefix="run-") as run:
        yield Discovery(bare_desk, StandIn(tmp_path / "engine"), run)


def test_one_command_explores_scores_and_removes(discovery: Discovery) -> None:
    """Three steps by blocks of a scripted model; the run has its figures and the container is gone."""
    discovery.script(*REPLIES)
    ended = discovery.done("run", "--json")
    told = ended.json
    assert told["schema"] == "minifram.discover_run/1"
    assert (told["steps"], told["ended_by"], told["model"], told["world"]) == (
        3,
        "model",
        "scripted demo",
        "seed world",
    )
    (run,) = discovery.runs()
    assert told["directory"] == str(run)
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    commands = [event for event in events if "command" in event]
    assert [event["command"] for event in commands] == ["ls /", "echo two", "false"]
    assert [event["tokens"] > 0 for event in commands] == [True] * 3
    assert [event["post"] for event in events if "post" in event] == [note(text) for text in ("one", "two", "three")]
    meta = json.loads((run / "meta.json").read_text())
    assert (meta["mode"], meta["engine"], meta["ended_by"]) == ("minifram", "podman", "model")
    assert told["score"] == json.loads((run / "score.json").read_text())
    assert told["score"]["steps"] == 3
    assert discovery.engine.left() == []
    assert os.listdir(discovery.places.run) == []
    assert "step 2: exit 0, $0.0000  echo two" in ended.err


def test_a_world_is_made_for_the_run(discovery: Discovery) -> None:
    """By seed and size, kept where discovery keeps worlds, mounted read-only; the same words are the same world. The
    container cannot see the seed, and the contents do not follow from it alone."""
    discovery.script(*REPLIES)
    told = discovery.done("run", "--seed", "7", "--size", "small", "--steps", "1", "--json").json
    assert (told["world"], told["ended_by"]) == ("seed 7, small", "steps")
    (world,) = Path(discovery.places.worlds).iterdir()
    assert re.fullmatch("world-[0-9a-f]{16}", world.name)
    assert json.loads((world / "known.json").read_text())["contents"] != 7
    assert json.loads((discovery.runs()[-1] / "meta.json").read_text())["world"]["contents"] > 2**16
    (made,) = discovery.engine.words("run")
    assert f"--volume={world}/world:/world:ro" in made
    again = discovery.done("world", "--seed", "7", "--size", "small", "--json").json
    assert again["directory"] == f"{world}/world"
    assert len(list(Path(discovery.places.worlds).iterdir())) == 1
    discovery.done("run", "--world", str(world), "--steps", "1")
    assert f"--volume={world}/world:/world:ro" in discovery.engine.words("run")[-1]
    assert (discovery.runs()[-1] / "known.json").exists()


def test_by_hand_nothing_of_a_model_is_needed(discovery: Discovery) -> None:
    """No settings, no door, no key; the block comes by stdin."""
    with discovery.desk.spawn("discover", "run", "--manual", "--json", stdin=-1) as process:
        out, err = process.communicate(f"{block('echo by hand')}\n\n", timeout=60)
    assert process.returncode == 0, err
    told = json.loads(out)
    assert (told["model"], told["steps"]) == ("manual", 1)
    assert not os.path.exists(discovery.places.state)
    assert discovery.engine.left() == []


def test_by_hand_it_is_ended_by_a_signal_to_it_alone(discovery: Discovery) -> None:
    """No terminal tells the orchestrator, which waits for a block."""
    with discovery.desk.spawn("discover", "run", "--manual", stdin=-1) as process:
        wait_for(lambda: [run for run in discovery.runs() if (run / "witness.jsonl").exists()])
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == Exit.INTERRUPTED
    (run,) = discovery.runs()
    assert json.loads((run / "meta.json").read_text())["ended_by"] == "interrupt"
    assert (run / "home.tar").exists()
    assert discovery.engine.left() == []


def test_a_name_that_an_earlier_run_had_shows_this_run_alone(discovery: Discovery) -> None:
    """Its steps, and nothing of the earlier one when no run came to be."""
    discovery.script(block("echo earlier"), "<Done>")
    discovery.done("run", "--name", "mine")
    discovery.script(block("echo later"), "<Done>")
    ended = discovery.done("run", "--name", "mine")
    assert "echo later" in ended.err
    assert "echo earlier" not in ended.err
    (discovery.desk.project / "discovery/orchestrator/main.py").write_text("raise SystemExit(4)")
    ended = discovery.run("run", "--name", "mine")
    assert "the orchestrator ended with 4" in ended.err
    assert "the run is" not in ended.err
    assert discovery.engine.left() == []


def test_a_run_that_makes_no_sense_is_listed_among_the_others(discovery: Discovery) -> None:
    """Numbers beyond all numbers, and JSON that is nested too deep."""
    runs = Path(discovery.places.runs)
    for second, event in enumerate(('{"command": "ls", "step": 1e999, "usd": NaN}', "[" * 200_000, "9" * 5000)):
        run = runs / f"2026-11-23T06000{second}.000Z"
        run.mkdir(parents=True)
        (run / "meta.json").write_text('{"version": 1, "model": "m"}')
        (run / "events.jsonl").write_text(f"{event}\n")
    (run / "meta.json").write_text("[" * 200_000)
    listed = discovery.done("list").out.splitlines()
    assert len(listed) == 3
    assert "nested too deep" in listed[-1]


def test_an_impatient_pm_leaves_nothing_behind(discovery: Discovery) -> None:
    """Ctrl-C again and again, while everything is removed."""
    discovery.script(block("sleep 60"))
    with discovery.desk.spawn("discover", "run") as process:
        wait_for(lambda: discovery.engine.words("exec"))
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
    assert process.returncode
    assert discovery.engine.left() == []
    assert os.listdir(discovery.places.run) == []


def test_runs_are_listed_scored_and_compared(discovery: Discovery, tmp_path: Path) -> None:
    """By their names or the beginnings of them; with a picture."""
    assert discovery.done("list", "--json").json["runs"] == []
    assert discovery.run("compare").code == Exit.NOT_FOUND
    discovery.script(*REPLIES)
    for _ in range(2):
        discovery.done("run")
    one, two = discovery.runs()
    (one / "score.json").unlink()
    listed = discovery.done("list", "--json").json["runs"]
    assert [(each["run"], each["steps"], each["files_read"] is None) for each in listed] == [
        (one.name, 3, True),
        (two.name, 3, listed[1]["files_read"] is None),
    ]
    assert discovery.run("score", "2").code == Exit.NOT_FOUND
    assert discovery.run("score", "3000").code == Exit.NOT_FOUND
    scored = discovery.done("score", one.name, "--no-tools", "--explain", "--json")
    assert scored.json["score"]["steps"] == 3
    assert (one / "score.json").exists()
    picture = tmp_path / "coverage.svg"
    compared = discovery.done("compare", "--svg", str(picture))
    assert "scripted demo (2)" in compared.out
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    assert discovery.done("compare", str(one), "--json").json["runs"][0]["run"] == one.name
    (two / "meta.json").write_text("{")
    assert "cannot be read" in discovery.done("list").out


# --- what it never touches ---------------------------------------------------------------------------------------


def tree(*places: str) -> dict[str, tuple[int, int, bytes]]:
    """All that lies there."""
    found = {}
    for place in places:
        for path in [Path(place), *Path(place).rglob("*")] if os.path.lexists(place) else ():
            status = path.lstat()
            found[str(path)] = (
                status.st_mode,
                status.st_ino,
                path.read_bytes() if stat.S_ISREG(status.st_mode) else b"",
            )
    return found


def test_nothing_of_a_sealed_agent_is_used(discovery: Discovery, born: Desk) -> None:
    """Its door, container, volume, key, ledger and directories: none is named in any call, read, or changed; and the
    container gets a world, a new volume, and no key."""
    discovery.desk.like(born)
    home = discovery.desk.home()
    agents = (home.data, home.state, home.run, os.path.dirname(home.settings))
    before = tree(*agents)

    def reply(request: dict[str, Any]) -> Answer:
        return Answer((Say(texts.pop(0)),), usage=Counts(100, 10))

    texts = list(REPLIES)
    with Wire(reply) as wire:
        model = {"provider": "anthropic", "base_url": wire.url, "name": "m", "prices": {"m": {"input": 1, "output": 1}}}
        discovery.settings(model=model)
        environ = {"ANTHROPIC_API_KEY": AGENTS_KEY, "DISCOVERY_ANTHROPIC_API_KEY": KEY}
        told = discovery.done("run", "--json", **environ).json
    assert tree(*agents) == before
    assert {request.headers["authorization"] for request in wire.requests} == {f"Bearer {KEY}"}
    calls = discovery.engine.calls()
    for secret in (KEY, AGENTS_KEY, *agents, "minifram-agent", "minifram.agent"):
        assert secret not in json.dumps(calls), secret
    for words in (json.dumps(call["words"]) for call in calls):
        assert "model.sock" not in words
        assert "MINIFRAM" not in words
    (made,) = discovery.engine.words("run")
    mounts = [word for word in made if word.startswith("--volume=")]
    name = next(word.removeprefix("--name=") for word in made if word.startswith("--name="))
    assert mounts == [
        f"--volume={name}_home:/home/agent",
        f"--volume={discovery.desk.project}/discovery/world:/world:ro",
    ]
    assert not [
        word for word in made if word.startswith(("--mount", "--env", "-e", "--secret", "--network", "--privi"))
    ]
    everything = b"".join(content for _, _, content in tree(discovery.places.data, discovery.places.state).values())
    assert KEY.encode() not in everything
    assert AGENTS_KEY.encode() not in everything
    lines = [json.loads(line) for line in Path(discovery.places.state, "ledger.jsonl").read_text().splitlines()]
    assert {line["unit"] for line in lines} == {made[made.index(f"--name={name}") + 1].rpartition("=")[2]}
    assert told["usd"] == pytest.approx(3 * 0.00011)


def test_an_agents_key_is_none_of_discoverys(discovery: Discovery) -> None:
    """With that alone in the environment there is no model, and nothing is begun."""
    discovery.settings(model={"base_url": "http://127.0.0.1:9"})  # nobody's, whatever comes of it
    ended = discovery.run("run", **dict.fromkeys(VARIABLES, AGENTS_KEY))
    assert ended.code == Exit.USAGE
    assert "export DISCOVERY_ANTHROPIC_API_KEY or DISCOVERY_OPENAI_API_KEY" in ended.err
    assert discovery.engine.calls() == []


def test_the_socket_is_in_a_directory_of_this_user_alone(discovery: Discovery) -> None:
    """0700, while the run goes on; the key file is 0600."""
    seen: list[tuple[str, int]] = []

    def reply(request: dict[str, Any]) -> Answer:
        for path in [Path(discovery.places.run), *Path(discovery.places.run).rglob("*")]:
            seen.append((path.name, stat.S_IMODE(path.lstat().st_mode)))
        return Answer((Say("<Done>"),), usage=Counts(100, 10))

    with Wire(reply) as wire:
        model = {"provider": "anthropic", "base_url": wire.url, "name": "m", "prices": {"m": {"input": 1, "output": 1}}}
        discovery.settings(model=model)
        discovery.done("run", DISCOVERY_ANTHROPIC_API_KEY=KEY)
    modes = dict(seen)
    assert modes["anthropic_api_key"] == modes["discovery.yaml"] == 0o600
    assert modes["minifram-discovery"] == modes["secrets"] == 0o700
    assert [mode for name, mode in seen if len(name) == 8] == [0o700]


def test_discovery_is_no_part_of_an_agent() -> None:
    """Neither of its first commit nor of the image: a change of discovery makes no other version of either."""
    for files in (first_files(str(PROJECT)), image_files(str(PROJECT))):
        assert [source.path for source in files if "discover" in source.path] == []


# --- money and failures ------------------------------------------------------------------------------------------


def test_a_run_has_a_bound_of_its_own(discovery: Discovery) -> None:
    """Each run is a unit of work: what the one before took counts on the day alone."""
    with Wire(lambda request: Answer((Say(f"{note('more')}\n{block('true')}"),), usage=Counts(1000, 1000))) as wire:
        prices = {"m": {"input": 1, "output": 10}}
        model = {"provider": "anthropic", "base_url": wire.url, "name": "m", "max_tokens": 1000, "prices": prices}
        discovery.settings(model=model, budget={"unit_usd": 5.0})
        for _ in range(2):
            told = discovery.done("run", "--usd", "0.03", "--json", DISCOVERY_ANTHROPIC_API_KEY=KEY).json
            assert (told["ended_by"], round(told["usd"], 4)) == ("budget", 0.011)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sandbox": "podman"}, "discovery knows model and budget alone"),
        ({"model": {"provider": "manual"}}, "use --manual"),
        ({"model": {"provider": "anthropic"}}, "DISCOVERY_ANTHROPIC_API_KEY is not set"),
        ({"model": {"nonsense": 1}}, "nonsense"),
        ({"budget": {"unit_usd": "much"}}, "unit_usd"),
        ({}, "no model"),
    ],
)
def test_settings_that_cannot_be_used_are_told_before_anything_begins(
    discovery: Discovery, settings: dict[str, Any], words: str
) -> None:
    """With the key, what was expected and what to do."""
    discovery.settings(**settings)
    ended = discovery.run("run")
    assert (ended.code, words in ended.err) == (Exit.USAGE, True), ended
    assert discovery.engine.calls() == []


def test_a_sum_that_is_none_is_blamed_on_the_option(discovery: Discovery) -> None:
    for usd in ("nan", "inf", "1e308", "0", "-1", "1e-9"):
        ended = discovery.desk.call("discover", "run", "--usd", usd)
        assert (ended.code, "--usd is " in ended.err, "discovery.yaml" in ended.err) == (Exit.USAGE, True, False), ended
        assert "from 0.0001 to 1,000,000" in ended.err


def test_a_model_that_cannot_work_is_told_before_the_container_is_made(discovery: Discovery) -> None:
    """The door says what is wrong."""
    discovery.settings(model={"provider": "anthropic", "name": "no-such-price"})
    ended = discovery.run("run", DISCOVERY_ANTHROPIC_API_KEY=KEY)
    assert "no price is known for the model 'no-such-price'" in ended.err
    discovery.settings(model={"provider": "scripted", "script": "none.yaml"})
    ended = discovery.run("run")
    assert "none.yaml cannot be read" in ended.err
    assert discovery.engine.words("run") == []
    assert os.listdir(discovery.places.run) == []


def test_a_model_that_fails_ends_the_run_and_it_is_scored(discovery: Discovery) -> None:
    """A key that the provider refuses: said in the run's own record."""
    with Wire(lambda request: Status(401, "authentication_error", "bad key")) as wire:
        discovery.settings(
            model={
                "provider": "anthropic",
                "base_url": wire.url,
                "name": "m",
                "prices": {"m": {"input": 1, "output": 1}},
            }
        )
        told = discovery.done("run", "--json", DISCOVERY_ANTHROPIC_API_KEY=KEY).json
    assert told["ended_by"].startswith("model: authentication")
    assert discovery.engine.left() == []


def test_what_is_missing_of_the_engine_is_told(discovery: Discovery, tmp_path: Path) -> None:
    """No engine, one that does not answer, no image and no way to build it, a container that does not start."""
    discovery.script(*REPLIES)
    ended = discovery.run("run", "--engine", "docker", PATH=f"{discovery.engine.programs}:/nonexistent")
    assert (ended.code, "docker is not installed" in ended.err) == (Exit.NOT_FOUND, True)
    assert "--engine podman" in ended.err
    (discovery.engine.place / "broken").touch()
    ended = discovery.run("run")
    assert "podman does not answer: Cannot connect" in ended.err
    (discovery.engine.place / "broken").unlink()
    ended = discovery.run("run", "--image", "other")
    assert (ended.code, "podman has no image 'other'" in ended.err) == (Exit.NOT_FOUND, True)
    (discovery.engine.place / "state/image/ai_discovery_agent").unlink()
    (discovery.engine.place / "no-build").touch()
    ended = discovery.run("run")
    assert "could not be built: Error: short-name debian:stable-slim did not resolve" in ended.err
    (discovery.engine.place / "no-build").unlink()
    (discovery.engine.place / "no-run").touch()
    ended = discovery.run("run")
    assert "could not be started: Error: crun: the machine is on fire" in ended.err
    assert "building the image" in ended.err
    assert discovery.engine.left() == []
    assert discovery.run("run", "--world", str(tmp_path / "none")).code == Exit.NOT_FOUND
    assert discovery.run("run", "--seed", "7", "--size", "../x").code == Exit.USAGE
    assert discovery.run("run", "--seed", "7", "--world", "/").code == Exit.USAGE


def test_a_name_that_is_taken_is_left_alone(discovery: Discovery) -> None:
    """Whoever's it is: it is neither used nor removed."""
    discovery.script(*REPLIES)
    (discovery.engine.place / "state/container").mkdir(parents=True)
    theirs = discovery.engine.place / "state/container/mine"
    theirs.write_text("<no value>\n/\nx\n")
    ended = discovery.run("run", "--name", "mine")
    assert (ended.code, "a container mine is there already" in ended.err) == (Exit.CONFLICT, True)
    assert discovery.engine.left() == ["mine"]


def test_docker_is_used_when_it_is_asked_for(bare_desk: Desk, tmp_path: Path) -> None:
    """By the same words; also by the orchestrator and the scorer."""
    with tempfile.TemporaryDirectory(prefix="run-") as run:
        discovery = Discovery(bare_desk, StandIn(tmp_path / "engine", "docker"), run)
        discovery.script(*REPLIES)
        told = discovery.done("run", "--engine", "docker", "--json").json
        assert discovery.engine.left() == []
        discovery.done("score", told["directory"])
    assert told["steps"] == 3
    assert json.loads((Path(told["directory"]) / "meta.json").read_text())["engine"] == "docker"
    assert json.loads((Path(told["directory"]) / "meta.json").read_text())["limits"]["steps"] == 100


def test_only_what_was_made_for_the_run_is_removed(discovery: Discovery) -> None:
    """Not what has the same name and another label, or none."""
    found = engines.find("podman", discovery.desk.environ, os.getuid())
    explorer = engines.Explorer("mine", "image", "/", "1a2b3c4d")
    state = discovery.engine.place / "state"
    (state / "container/mine").write_text("9f9f9f9f\n/\nx\n")
    (state / "volume/mine_home").write_text("\n")
    assert engines.remove(found, explorer) == []
    assert discovery.engine.left() == ["mine", "mine_home"]
    (state / "container/mine").write_text("1a2b3c4d\n/\nx\n")
    (state / "volume/mine_home").write_text("1a2b3c4d\n")
    assert engines.remove(found, explorer) == []
    assert discovery.engine.left() == []


def test_a_container_can_be_kept(discovery: Discovery) -> None:
    """It is said how it is removed."""
    discovery.script(*REPLIES)
    ended = discovery.done("run", "--keep", "--name", "kept", "--steps", "1")
    assert discovery.engine.left() == ["kept", "kept_home"]
    assert "podman rm --force kept && podman volume rm kept_home" in ended.err


def test_two_runs_with_a_model_do_not_share_the_door(discovery: Discovery) -> None:
    """The second is told; and after a signal everything of the first is gone, while its run is complete."""
    discovery.script(block("sleep 60"))
    with discovery.desk.spawn("discover", "run") as first:
        wait_for(lambda: discovery.engine.words("exec"))
        ended = discovery.run("run")
        assert (ended.code, "one at a time" in ended.err) == (Exit.CONFLICT, True)
        doors = [child for child in psutil.Process(first.pid).children() if "infra.model_door" in child.cmdline()]
        assert len(doors) == 1
        first.send_signal(signal.SIGTERM)
        _, err = first.communicate(timeout=60)
    assert first.returncode == Exit.INTERRUPTED
    assert "was interrupted and is complete" in err
    (run,) = discovery.runs()
    assert json.loads((run / "meta.json").read_text())["ended_by"] == "interrupt"
    assert discovery.engine.left() == []
    assert os.listdir(discovery.places.run) == []
    assert not doors[0].is_running()


def test_nothing_outlives_a_command_that_is_killed(discovery: Discovery) -> None:
    """Neither the door nor the orchestrator, which completes the run. Its container goes with the next run."""
    discovery.script(block("sleep 60"))
    with discovery.desk.spawn("discover", "run") as killed:
        wait_for(lambda: discovery.engine.words("exec"))
        children = psutil.Process(killed.pid).children(recursive=True)
        assert [child for child in children if "infra.model_door" in child.cmdline()]
        killed.kill()
    _, left = psutil.wait_procs(children, timeout=30)
    assert left == []
    (run,) = discovery.runs()
    assert json.loads((run / "meta.json").read_text())["ended_by"] == "interrupt"
    assert len(os.listdir(discovery.places.run)) == 1  # with the key, had the model one
    assert len(discovery.engine.left()) == 2
    discovery.script("<Done>")
    assert "removed what a run that was killed had left" in discovery.done("run").err
    assert discovery.engine.left() == []
    assert os.listdir(f"{discovery.places.data}/containers") == []
    assert os.listdir(discovery.places.run) == []


def test_options_of_the_machine_are_given_to_the_engine(discovery: Discovery) -> None:
    """A bound on processes in any case."""
    discovery.script("<Done>")
    discovery.done("run")
    (made,) = discovery.engine.words("run")
    assert any(word.startswith("--ulimit=nproc=") for word in made)
    assert engines.problem_with_world("/") is None
