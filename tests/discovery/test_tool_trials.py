"""Tools tried on other data: by what came out of containers, and in real ones."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from command_words import invocations
from digest import digest
from honest_tools import tools_of
from hypothesis import given
from hypothesis import strategies as st
from read_run import Warnings, commands, read_run
from run_values import Home, HomeFile
from tool_trials import ALL_SECONDS, tools_tar, try_tools, verdict
from trial_engine import Ended
from world_copies import original_texts

from host.discovery import scripts
from tests.discovery.runs_made import RunMade
from tests.discovery.site import PYTHON, Site
from tests.shared.rows import each_row

ROOT = Path(__file__).parents[2]
SCORER, WORLD = ROOT / "discovery/scoring/scorer.py", ROOT / "discovery/scoring/world.py"


def ended(*outputs: str) -> list[Ended]:
    return [Ended(0, output.encode(), "it ended with 0") for output in outputs]


@each_row(
    "original, twin, against",
    [
        (ended("5", "5", "5"), ended("7", "7", "7"), ""),
        (ended("5"), [], ""),
        (ended("5", "5"), ended("5", "5"), "it prints the same on other contents"),
        (ended("", ""), ended("", ""), "it prints nothing"),
        (ended("5", "6"), ended("7", "7"), "it does not print the same on the same contents"),
        (ended("5", "5"), ended("7", "8"), "it does not print the same on the same contents"),
        ([Ended(1, b"5", "it ended with 1")], ended("7"), "it ended with 1"),
        (ended("5"), [Ended(None, b"", "it printed more than 9 bytes")], "it printed more than 9 bytes"),
    ],
)
def test_a_tool_works_when_its_output_follows_from_the_contents(
    original: list[Ended], twin: list[Ended], against: str
) -> None:
    """The same on the same, another on others, and 0 each time."""
    assert verdict(original, twin) == against


@given(st.lists(st.sampled_from("ab"), min_size=2, max_size=6), st.lists(st.sampled_from("ab"), min_size=2, max_size=6))
def test_no_mixture_of_outputs_passes(original: list[str], twin: list[str]) -> None:
    """Of all that two outputs can come out as, only two constant ones that differ."""
    works = len({*original}) == len({*twin}) == 1 and original[0] != twin[0]
    assert (verdict(ended(*original), ended(*twin)) == "") == works


@each_row(
    "command, line",
    [
        ("tools/sum.sh /world/a.csv", "tools/sum.sh /world/a.csv"),
        ("tools/sum.sh /world/*.csv 2> /dev/null | sort", "tools/sum.sh /world/*.csv"),
        ('cd ~/tools && ./sum.sh "$HOME/x"', 'cd /home/agent/tools && ./sum.sh "$HOME/x"'),
        ("cat /world/a.csv | python3 tools/sum.py -", "cat /world/a.csv | python3 tools/sum.py -"),
        ("tools/sum.sh < /world/a.csv", "tools/sum.sh < /world/a.csv"),
        ("LC_ALL=C tools/sum.sh 'a b' > out", "LC_ALL=C tools/sum.sh 'a b'"),
        ('for f in /world/*; do tools/sum.sh "$f"; done', None),
        ("tools/sum.sh $(ls /world)", None),
        ("grep x /world/a | tools/sum.sh", None),
        ("tools/sum.sh < MAP.md", None),
        ("find /world -exec tools/sum.sh {} +", None),
    ],
)
def test_an_invocation_is_taken_from_the_words_alone(command: str, line: str | None) -> None:
    """What depends on anything but the world and the tool cannot be run again."""
    [run] = invocations(command)
    expected = None if line is None or ("|" in line and not line.startswith("cat")) else line
    assert run.invocation == expected


def test_only_tools_go_into_a_trial() -> None:
    """By the names and contents that the scorer read; nothing of what the archive said besides."""
    home = Home(
        {
            "/home/agent/tools/a.sh": HomeFile(1, 0o777, b"a"),
            "/home/agent/tools/in/b.py": HomeFile(1, 0o640, b"b"),
            "/home/agent/tools/large": HomeFile(1 << 30, 0o755, None),
            "/home/agent/MAP.md": HomeFile(1, 0o644, b"m"),
        },
        frozenset(["/home/agent/tools/link"]),
    )
    with tarfile.open(fileobj=BytesIO(tools_tar(home))) as tar:
        entries = [(entry.name, entry.mode) for entry in tar if entry.isfile()]
    assert entries == [("tools/a.sh", 0o755), ("tools/in/b.py", 0o644)]


def run_with_tools(
    place: Path, tools: dict[str, str], world: Path | None, image: str = "ai_discovery_agent", seconds: int = 3
) -> Path:
    """A run in which each tool was run twice on the first table."""
    made = RunMade()
    assert made.meta is not None
    if world is not None:
        made.known = json.loads((world / "known.json").read_text())
        made.meta["world"] |= {"directory": str(world / "world"), "seed": 5}
    else:
        other = place / "other"
        made_world(other)
        made.meta["world"] |= {"directory": str(other / "world")}
    made.meta |= {"image": image, "limits": {"seconds": seconds}}
    assert made.known is not None
    table = next(file["path"] for file in made.known["files"] if file["path"].endswith(".csv"))
    for name, text in tools.items():
        made.tool(name, text, f"tools/{name} {table}", f"tools/{name} {table}")
    return made.write(place)


@each_row(
    "words, why",
    [
        (("--engine", "no-such-engine"), "there is no program no-such-engine"),
        (("--no-tools",), r"no tool was tried \(--no-tools\)"),
        (("--image", "--privileged"), "is no name of an image"),
    ],
)
def test_without_an_engine_the_rest_is_scored(words: tuple[str, ...], why: str) -> None:
    """The figure is null and says why, and what to do."""
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        world = Path(place, "world")
        made_world(world)
        run = run_with_tools(Path(place), {"x.sh": "#!/bin/sh\nwc $1\n"}, world)
        # an engine that is there, and has no image
        program = Path(place, "podman")
        program.write_text("#!/bin/sh\nexit 1\n")
        program.chmod(0o755)
        environ = {**os.environ, "PATH": f"{place}:{os.environ['PATH']}"}
        command = [sys.executable, SCORER, run, *(words if "--image" not in words else [f"--image={words[1]}"])]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environ)
    honest = json.loads(result.stdout)["honest"]
    assert honest["tools"]["reused"] == 1
    assert honest["tools"]["work_on_other_data"] is None
    assert re.search(why, honest["why"]["tools.work_on_other_data"])


def made_world(out: Path, *words: str) -> None:
    subprocess.run([sys.executable, WORLD, *(words or ("--seed", "5", "--size", "small")), "--out", out], check=True)


def test_a_world_that_is_not_what_is_known_is_not_used(tmp_path: Path) -> None:
    """Nor one that a stranger's run names: only what has the known hash is read."""
    run = run_with_tools(tmp_path, {"x.sh": "#!/bin/sh\nwc $1\n"}, None)
    result = subprocess.run([sys.executable, SCORER, run], capture_output=True, text=True, timeout=60)
    why = json.loads(result.stdout)["honest"]["why"]["tools.work_on_other_data"]
    assert "contents of the run's world are not at hand" in why


def test_trials_end_before_whoever_waits_for_them(tmp_path: Path) -> None:
    """Twenty tools that take their time would else take hours, and `minifram discover` waits for 900 s."""
    made_world(tmp_path / "world")
    program = tmp_path / "podman"
    program.write_text("#!/bin/sh\n[ $1 = image ] || { echo ready; sleep 0.2; echo $$; }\n")
    program.chmod(0o755)
    run = read_run(run_with_tools(tmp_path, {"a.sh": "a\n", "b.sh": "b\n"}, tmp_path / "world"))
    assert run.known is not None
    assert run.witness is not None
    found = tools_of(run.witness, run.home, digest(commands(tmp_path / run.name, Warnings())))
    texts = original_texts(run.meta, run.known, tmp_path)
    trials = try_tools(run, found, texts, tmp_path, str(program), None, print, all_seconds=0.1)
    assert {trial.told for trial in trials.values()} == {"not tried to its end: all took more than 0.1 s"}
    assert ALL_SECONDS + 120 < scripts.SECONDS


def test_a_world_that_is_gone_is_made_again_with_its_contents(tmp_path: Path) -> None:
    """By the numbers that meta.json tells."""
    made_world(tmp_path / "world", "--seed", "5", "--size", "small", "--contents", "99")
    run = run_with_tools(tmp_path, {}, tmp_path / "world")
    meta = json.loads((run / "meta.json").read_text())
    meta["world"] |= {"directory": "/nowhere", "contents": 99}
    (run / "meta.json").write_text(json.dumps(meta))
    read = read_run(run)
    assert read.known is not None
    texts = original_texts(read.meta, read.known, tmp_path)
    assert texts is not None
    assert set(texts) == set(read.known.files)


TOOLS = {
    "sum.sh": "#!/bin/sh\nawk -F, 'NR > 1 {s += $2} END {print s}' \"$1\"\n",
    "constant.sh": '#!/bin/sh\ncat "$1" > /dev/null; echo 42\n',
    "chance.sh": '#!/bin/bash\ncat "$1"; echo $RANDOM\n',
    "place.sh": "#!/bin/sh\ncat /proc/self/mountinfo\n",
    "times.sh": "#!/bin/sh\nstat -c '%Y %n' /world/README.md /world/*\n",
    "inode.sh": "#!/bin/sh\nstat -c %i /world/README.md\n",
    "forever.sh": "#!/bin/sh\nsleep 1000\n",
    "flood.sh": '#!/bin/sh\ncat "$1"; yes\n',
    "notes.sh": "#!/bin/sh\ncat /home/agent/MAP.md\n",
    "refuse.sh": "#!/bin/sh\nexit 125\n",
    "net.sh": '#!/bin/sh\ncat "$1"; ls /sys/class/net | grep -v lo\n',
}


IMAGE = "localhost/ai_discovery_agent:latest"
SAME, CHANCE = "it prints the same on other contents", "it does not print the same on the same contents"
AGAINST = {
    "constant": SAME,
    "chance": CHANCE,
    "place": CHANCE,
    "times": SAME,
    "inode": CHANCE,
    "forever": "it was ended after 3 s",
    "flood": "it printed more than 1048576 bytes",
    "notes": "it ended with 1",
    "refuse": "it ended with 125",
    "net": "it ended with 1",
}


@pytest.fixture(scope="module")
def tried(place: Site) -> dict[str, Any]:
    """The report of a run with all these tools, scored with a real engine."""
    root = place.user.directory(f"{place.name}-trials")
    place.run(PYTHON, "scoring/world.py", "--seed", "5", "--size", "small", "--out", root / "world")
    run = run_with_tools(
        root, TOOLS, root / "world", place.podman("inspect", "--format={{.ImageName}}", place.name).stdout.strip()
    )
    subprocess.run(["chmod", "-R", "a+rX", root], check=True)
    result = place.run(PYTHON, "scoring/scorer.py", run, "--explain")
    report: dict[str, Any] = json.loads(result.stdout)
    return {"report": report, "evidence": result.stderr}


@pytest.mark.heavy
@pytest.mark.timeout(300)
def test_in_real_containers_only_what_follows_from_contents_works(tried: dict[str, Any]) -> None:
    """Not a constant, chance, the place or the time of files, the agent's notes, nor what never ends; no container
    stays."""
    tools = tried["report"]["honest"]["tools"]
    works = {Path(each["path"]).name: each["works_on_other_data"] for each in tools["each"]}
    assert works == {name: name == "sum.sh" for name in TOOLS}, tried["evidence"]
    assert tools["work_on_other_data"] == 1
    against = dict(re.findall(r"tools/([a-z]+)\.sh: written.*: ([^:]*)\n", tried["evidence"]))
    assert {name: told for name, told in against.items() if name != "sum"} == AGAINST


@pytest.mark.heavy
@pytest.mark.timeout(300)
def test_the_seed_world_has_a_twin(place: Site) -> None:
    """A tool of the customer's own example works on it, by the world's place in the project."""
    root = place.user.directory(f"{place.name}-seed")
    made = RunMade()
    assert made.meta is not None
    made.known = json.loads((ROOT / "discovery/scoring/seed_known.json").read_text())
    made.meta |= {"world": {"directory": str(place.root / "world"), "seed": None, "size": None}}
    made.tool("parse.sh", '#!/bin/bash\ntail -n +2 "$1" | cut -d, -f"$2"\n', "tools/parse.sh /world/data.csv 2")
    run = made.write(root)
    subprocess.run(["chmod", "-R", "a+rX", root], check=True)
    began = time.monotonic()
    result = place.run(PYTHON, "scoring/scorer.py", run, "--image", IMAGE, "--explain")
    assert json.loads(result.stdout)["honest"]["tools"]["work_on_other_data"] == 1, result.stderr
    assert time.monotonic() - began < 100


@pytest.mark.heavy
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_interrupts_the_scorer_leaves_no_container(place: Site, number: int) -> None:
    """While a tool runs that does not end."""
    root = place.user.directory(f"{place.name}-interrupted-{number}")
    place.run(PYTHON, "scoring/world.py", "--seed", "5", "--size", "small", "--out", root / "world")
    tools = {"forever.sh": "#!/bin/sh\nsleep 1000\n"}
    run = run_with_tools(root, tools, root / "world", IMAGE, seconds=30)
    subprocess.run(["chmod", "-R", "a+rX", root], check=True)
    with place.user.popen(*place.words("/bin/sh", "-c", f"echo $$; exec {PYTHON} scoring/scorer.py {run}")) as scorer:
        assert scorer.stdout is not None
        pid = int(scorer.stdout.readline())
        deadline = time.monotonic() + 60
        while not (started := trials_of(place, pid, "running")):
            assert time.monotonic() < deadline, "no trial began"
            time.sleep(0.1)
        os.kill(pid, number)
        scorer.communicate(timeout=60)
    assert scorer.returncode == (128 + signal.SIGTERM if number == signal.SIGTERM else 130)
    assert (len(started), trials_of(place, pid)) == (1, [])


def trials_of(place: Site, pid: int, status: str = "") -> list[str]:
    """Those of the scorer with this pid: other tests score at the same time."""
    chosen = ("--filter", f"status={status}") if status else ()
    name = f"name=discovery-trial-{pid}-"
    return place.podman("ps", "-a", "--filter", name, "--format={{.Names}}", *chosen).stdout.split()
