"""Scores one run from its log: python3 scoring/scorer.py runs/<time>/ [--explain]

The document's figures are as simple as it says: one `echo` of a list of paths moves them. Where main.py was given the
world's known.json, `known` stands beside them, which an echo does not move: each file of such a world has a mark, a
word that nobody can guess, in its name and another in its content. A file is found when the mark of its name came back
in an output, and read when that of its content did, unless a command had said it before. Nothing is run here.

Extension point: a new figure is a function of the command events and a key in `score`."""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "orchestrator"))
from record import commands

TOOLS = "/home/agent/tools/"
_NAME = r"[^\s:;,'\"`<>|&()\[\]{}*?$\\]+"
_PATH = re.compile(rf"(?<![\w.~/-])/(?:home/agent|world)/{_NAME}")
_MARK = re.compile(r"(?<![a-z])[a-z]{12}(?![a-z])")


def score(run: Path) -> dict[str, Any]:
    """The report. Raises OSError, ValueError, KeyError and TypeError for a directory that holds no run."""
    events = commands(run)
    latencies = [event["latency_s"] for event in events]
    seen = [path for event in events for path in paths(f"{event['command']}\n{event['stdout']}\n{event['stderr']}")]
    tools = list(dict.fromkeys(path for path in seen if path.startswith(TOOLS)))
    report = {
        "coverage_files": len({path for event in events for path in paths(event["stdout"])}),
        "efficiency_success_rate": sum(event["exit_code"] == 0 for event in events) / len(events) if events else None,
        "latency_median_s": statistics.median(latencies) if latencies else None,
        "tools_count": len(tools),
        "tools": tools,
        "steps": len(events),
        "tools_reused": sum(sum(tool in event["command"] for event in events) > 1 for tool in tools),
        "usd": events[-1].get("usd") if events else None,
    }
    known = read_json(run / "known.json")
    return {**report, "known": found_out(known, events, read_json(run / "answers.json")) if known else None}


def paths(text: str) -> list[str]:
    """What looks like a path below /home/agent or /world."""
    return [path.rstrip("./!") for path in _PATH.findall(text)]


def found_out(known: dict[str, Any], events: list[dict[str, Any]], answers: dict[str, str]) -> dict[str, Any]:
    """What of the world came back, and in which step first."""
    first: dict[str, int] = {}
    said: set[str] = set()
    for step, event in enumerate(events, 1):
        said |= {*_MARK.findall(event["command"])} - first.keys()
        for mark in {*_MARK.findall(f"{event['stdout']}\n{event['stderr']}")} - said:
            first.setdefault(mark, step)
    right = [one["id"] for one in known["questions"] if plain(answers.get(one["id"], "")) == plain(one["answer"])]
    return {
        "files": len(known["files"]),
        "found": sum(file["name_mark"] in first for file in known["files"]),
        "read": sum(file["mark"] in first for file in known["files"]),
        "asked": len(known["questions"]),
        "right": right,
        "first": {file["path"]: [first.get(file["name_mark"]), first.get(file["mark"])] for file in known["files"]},
    }


def plain(text: str) -> str:
    """An answer without case, blanks, quotes, a last point, and commas in a number."""
    text = " ".join(text.casefold().split()).strip("\"'`. ")
    return text.replace(",", "") if re.fullmatch(r"[\d,]+", text) else text.replace(", ", ",")


def read_json(path: Path) -> dict[str, Any]:
    """Empty when there is no such file. Raises ValueError."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def main() -> int:
    parser = argparse.ArgumentParser(description="Score one run of discovery from its log.")
    parser.add_argument("run", type=Path)
    parser.add_argument("--explain", action="store_true", help="tell in which step each file was found and read")
    given = parser.parse_args()
    try:
        report = score(given.run)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"scorer.py: {given.run} cannot be scored: {error!r}", file=sys.stderr)
        return 1
    if given.explain:
        for path, (found, read) in (report["known"] or {"first": {}})["first"].items():
            print(f"{path}: found in step {found}, read in step {read}", file=sys.stderr)
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
