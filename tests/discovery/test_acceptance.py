"""The customer's acceptance (000 §2, §7.6): his commands, in a real container, by the manual mode through a pipe."""

from __future__ import annotations

import json
import tarfile

import pytest

from bench.sealed.rootless import Rootless
from tests.discovery.site import PYTHON, commands_of, lines_of, site

MAKE = (
    "printf '# Map\\n- /world/data.csv: 7 lines\\n' > MAP.md; for n in LOG TOOLS PLAN; do echo \"# $n\" > $n.md; done"
)
TOOL = (
    "mkdir -p tools && printf '%s\\n' '#!/bin/bash' 'tail -n +2 \"$1\" | cut -d, -f\"$2\"' > tools/parse_csv.sh "
    "&& chmod +x tools/parse_csv.sh"
)
AGAIN = (
    "/home/agent/tools/parse_csv.sh /world/data.csv 3 | sort | uniq -c "
    "&& echo '- `/home/agent/tools/parse_csv.sh FILE COLUMN`: prints a column' >> TOOLS.md"
)
SMOKE = f"""\
<Intent>
Map top-level directories including /world and /home/agent

<Command>
ls -la / /world /home/agent

<Expected>
Confirm world (ro) and home (rw)

<OnError>
List dirs individually

<Observation>
/world present; /home/agent writable…

<Inference>
I can persist MAP/LOG/TOOLS/PLAN under /home/agent

<Next>
Initialize files and scan /world

<Intent>
Initialize the artifacts

<Command>
{MAKE}

<Expected>
Four files

<OnError>
Write them one by one

<Intent>
Write a tool that reads a column of a CSV file

<Command>
{TOOL}

<Expected>
An executable script

<OnError>
Look at the permissions

<Intent>
Use it on the values

<Command>
/home/agent/tools/parse_csv.sh /world/data.csv 2 | paste -sd+ | tee sum.txt

<Expected>
All values

<OnError>
Read the file by hand

<Observation>
Six values

<Inference>
The tool works

<Next>
The tags

<Intent>
Use it again, on the tags, and document it

<Command>
{AGAIN}

<Expected>
Three tags

<OnError>
Count them by hand

<Intent>
See what else there is

<Command>
find /world -type f | sort

<Expected>
Hints of hidden content

<OnError>
List the directories

.
.
193
140
"""
"""Six blocks, an empty block that ends the run, and answers to two of the questions after it: one is right."""


@pytest.mark.heavy
def test_the_operators_commands_make_a_run_with_artifacts_and_a_report(user: Rootless) -> None:
    with site(user, network=True) as place:
        ended = place.orchestrate(SMOKE)
        run = place.last_run()
        assert str(run) in ended.stdout
        events = commands_of(run)
        assert len(events) == 6
        assert [event["exit_code"] for event in events] == [0] * 6
        assert events[3]["stdout"] == "17+42+8+23+99+4\n"
        for name in ("t", "plan", "command", "stdout", "stderr", "exit_code", "latency_s"):
            assert name in events[0]
        notes = [event for event in lines_of(run / "events.jsonl") if "post" in event]
        assert [note["post"].split("\n")[1] for note in notes] == [
            "/world present; /home/agent writable…",
            "Six values",
        ]
        meta = json.loads((run / "meta.json").read_text())
        assert (meta["container"], meta["mode"], meta["ended_by"]) == (place.name, "manual", "empty input")
        assert "<Command>" in meta["prompt"]
        assert meta["started_at"] < meta["ended_at"]
        with tarfile.open(run / "home.tar") as tar:
            names = {name.removeprefix("agent/") for name in tar.getnames()}
        assert {"MAP.md", "LOG.md", "TOOLS.md", "PLAN.md", "tools/parse_csv.sh"} <= names
        assert place.podman("exec", place.name, "touch", "/world/x", check=False).returncode, "/world is read-only"
        assert place.podman("exec", place.name, "id", "-un").stdout.strip() == "agent"
        report = json.loads(place.run(PYTHON, "scoring/scorer.py", run).stdout)
        assert report["steps"] == 6
        assert report["efficiency_success_rate"] == 1.0
        assert report["tools"] == ["/home/agent/tools/parse_csv.sh"]
        assert report["tools_count"] == 1
        assert report["coverage_files"] >= 3
        assert report["latency_median_s"] > 0
        honest = report["honest"]
        assert (honest["files_read"]["count"], honest["files_read"]["of"]) == (1, 3), "the listing reads no file"
        assert (honest["questions"]["answered"], honest["questions"]["right"]) == (2, 1)
        assert (honest["tools"]["run"], honest["tools"]["reused"]) == (1, 1)
