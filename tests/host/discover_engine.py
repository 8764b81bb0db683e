"""A stand-in for Podman for `minifram discover`: what it executes runs on this machine, in a directory of its own.

All its calls, with what of the environment could give something away, are lines of the file `calls`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PROGRAM = r"""#!/usr/bin/python3
import json, os, pathlib, subprocess, sys

here = pathlib.Path(__file__).resolve().parents[1]
words = sys.argv[1:]
with open(here / "calls", "a") as file:
    file.write(json.dumps({"words": words, "environ": dict(os.environ)}) + "\n")
if (here / "broken").exists():
    sys.exit("Cannot connect to the daemon.")
state = here / "state"
for kind in ("container", "volume", "image"):
    (state / kind).mkdir(parents=True, exist_ok=True)


def value(prefix):
    return [word.removeprefix(prefix) for word in words if word.startswith(prefix)]


def no(kind, name):
    print(f"Error: no such {kind} {name}", file=sys.stderr)
    sys.exit(125)


def need(kind, name):
    path = state / kind / name
    if not path.exists():
        no(kind, name)
    return path


verb = words[0]
if verb == "version":
    print("stand-in")
elif verb == "info":
    print("{}")
elif words[:2] == ["image", "inspect"]:
    need("image", words[-1])
elif verb == "build":
    if (here / "no-build").exists():
        sys.exit("Error: short-name debian:stable-slim did not resolve")
    (state / "image" / words[words.index("--tag") + 1]).touch()
elif words[1:2] == ["inspect"]:
    print(need(verb, words[-1]).read_text().splitlines()[0])
elif verb == "inspect":
    name = words[-1]
    _, world, image = need("container", name).read_text().splitlines()
    mounts = [{"Destination": "/world", "Source": world}]
    print(json.dumps([{"Config": {"Image": image}, "State": {"Running": True}, "Mounts": mounts}]))
elif words[:2] == ["volume", "create"]:
    (state / "volume" / words[-1]).write_text(value("--label=")[0].partition("=")[2] + "\n")
elif words[:2] == ["volume", "rm"]:
    (state / "volume" / words[-1]).unlink(missing_ok=True)
elif verb == "run":
    if (here / "no-run").exists():
        sys.exit("Error: crun: the machine is on fire")
    (name,), (label,) = value("--name="), value("--label=")
    world = value("--volume=")[1].split(":")[0]
    need("image", words[-1])
    (state / "container" / name).write_text(f"{label.partition('=')[2]}\n{world}\n{words[-1]}\n")
elif verb == "rm":
    (state / "container" / words[-1]).unlink(missing_ok=True)
elif verb == "exec":
    rest = words[1:]
    environ = dict(os.environ)
    while rest[0] == "-e":
        name, _, given = rest[1].partition("=")
        environ[name] = given
        rest = rest[2:]
    need("container", rest[0])
    home = here / "home"
    home.mkdir(exist_ok=True)
    sys.exit(subprocess.run(rest[1:], cwd=home, env=environ).returncode)
elif verb == "cp":
    sys.exit(subprocess.run(["tar", "-C", here, "-cf", "-", "home"]).returncode)
else:
    sys.exit(f"the stand-in knows no {words}")
"""


class StandIn:
    """An engine that is none, by the name of `podman` or `docker`."""

    def __init__(self, place: Path, name: str = "podman", image: bool = True) -> None:
        self.place = place
        self.programs = place / "bin"
        self.programs.mkdir(parents=True)
        program = self.programs / name
        program.write_text(PROGRAM)
        program.chmod(0o755)
        (place / "home").mkdir()
        if image:
            (place / "state/image").mkdir(parents=True)
            (place / "state/image/ai_discovery_agent").touch()

    def calls(self) -> list[dict[str, Any]]:
        try:
            return [json.loads(line) for line in (self.place / "calls").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def words(self, verb: str) -> list[list[str]]:
        """Of the calls of this verb."""
        return [call["words"] for call in self.calls() if call["words"][0] == verb]

    def left(self) -> list[str]:
        """Containers and volumes that are there."""
        return sorted(path.name for kind in ("container", "volume") for path in (self.place / "state" / kind).glob("*"))
