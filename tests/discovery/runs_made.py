"""Run directories made by hand, for tests: what a run of the orchestrator leaves, without a container.

run = RunMade()
run.step("cat /world/a-11aa.csv", "id,value\\n", read=["/world/a-11aa.csv"])
run.home["MAP.md"] = "/world/a-11aa.csv has 2 lines\\n"
directory = run.write(tmp_path)"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TABLE, NOTE, CLUE = (
    "/world/tables/abc-aaaa11111a.csv",
    "/world/notes/def-bbbb22222b.md",
    "/world/.deep/.clue-cccc33333c.txt",
)
TEXTS = {
    TABLE: "id,value,tag\nfeed00000a-1,1001,red\nfeed00000a-2,2002,blue\n",
    NOTE: f"# kuli\n\nMarked feed00000b. Nolo bati.\n\nMore in `{TABLE}`.\n",
    CLUE: "CLUE: nolo bati kuli feed00000c\n",
    "/world/README.md": "# World\n\nA set of files.\n",
}
NONCES = {TABLE: ("aaaa11111a", "feed00000a"), NOTE: ("bbbb22222b", "feed00000b"), CLUE: ("cccc33333c", "feed00000c")}
QUESTIONS = [
    ("q1", "sum", "What is the sum of the column value?", "3003", [TABLE]),
    ("q2", "clue", "Which words follow CLUE:?", "nolo bati kuli feed00000c", [CLUE]),
    ("q3", "disagreement", "Which articles differ?", "abe, kuli", [TABLE, NOTE]),
]

_MADE_WORLD = {"directory": "/nowhere", "seed": 7, "size": "small"}


def known_of(texts: Mapping[str, str] = TEXTS) -> dict[str, Any]:
    """known.json of the little world of these tests."""
    return {
        "version": 1,
        "seed": 7,
        "size": "small",
        "files": [
            {
                "path": path,
                "sha256": hashlib.sha256(text.encode()).hexdigest(),
                "bytes": len(text.encode()),
                "lines": text.count("\n"),
                "kind": "any",
            }
            for path, text in texts.items()
        ],
        "items": [
            {"id": f"item-{number}", "path": path, "name_nonce": name, "content_nonce": content}
            for number, (path, (name, content)) in enumerate(NONCES.items(), 1)
        ],
        "questions": [
            {"id": name, "kind": kind, "text": text, "answer": answer, "files": files}
            for name, kind, text, answer, files in QUESTIONS
        ],
    }


@dataclass
class RunMade:
    """Change what a test is about, then `write`. A part that is None is not written."""

    meta: dict[str, Any] | None = field(
        default_factory=lambda: {
            "container": "ai_discovery_agent",
            "mode": "manual",
            "prompt": "Explore.",
            "started_at": "2026-11-23T06:30:00Z",
            "ended_at": "2026-11-23T06:40:00Z",
            "version": 1,
            "ended_by": "empty input",
            "engine": "podman",
            "image": "ai_discovery_agent",
            "model": None,
            "limits": {"seconds": 60, "output_bytes": 65536, "steps": None},
            "world": dict(_MADE_WORLD),
            "refused_blocks": 0,
        }
    )
    events: list[dict[str, Any]] = field(default_factory=list)
    witness: list[dict[str, Any]] | None = field(
        default_factory=lambda: [{"version": 1, "world": True, "home": True, "why": {}}]
    )
    known: dict[str, Any] | None = field(default_factory=known_of)
    answers: dict[str, Any] | None = field(
        default_factory=lambda: {"asked": [name for name, *_ in QUESTIONS], "answers": {}}
    )
    home: dict[str, str] | None = field(default_factory=dict)
    """The text of each file below /home/agent."""

    def step(
        self,
        command: str,
        stdout: str = "",
        exit_code: int = 0,
        *,
        read: Iterable[str] = (),
        listed: Iterable[str] = (),
        changed: Iterable[str] = (),
        opened: Mapping[str, str] | None = None,
        overflow: bool = False,
        **more: Any,
    ) -> int:
        """Add a command event and what the host saw; `opened` are tools by name with their text. Returns its number."""
        number = sum("command" in event for event in self.events) + 1
        self.events.append(
            {
                "t": 1_795_415_400.0 + number,
                "plan": f"<Command>\n{command}\n",
                "command": command,
                "stdout": stdout,
                "stderr": "",
                "exit_code": exit_code,
                "latency_s": 0.1 * number,
                "step": number,
                **more,
            }
        )
        if self.witness is not None:
            tools = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in (opened or {}).items()}
            self.witness.append(
                {
                    "step": number,
                    "read": list(read),
                    "listed": list(listed),
                    "tools": {f"/home/agent/tools/{name}": hashed for name, hashed in tools.items()},
                    "changed": list(changed),
                    "overflow": overflow,
                }
            )
        return number

    def note(self, text: str = "<Observation>\nfine\n") -> None:
        self.events.append({"t": 1_795_415_401.0, "post": text})

    def tool(self, name: str, text: str, *runs: str) -> None:
        """Write a tool in one step, and run it by each of these commands."""
        assert self.home is not None
        self.home[f"tools/{name}"] = text
        self.step(f"printf '%s' '...' > /home/agent/tools/{name}", changed=[f"/home/agent/tools/{name}"])
        for command in runs:
            self.step(command, f"out of {command}\n", opened={name: text})

    def answer(self, **answers: str | None) -> None:
        assert self.answers is not None
        self.answers["answers"].update(answers)

    def write(self, place: Path) -> Path:
        """The run directory, below `place`; beside it the little world, unless a test has said where that is."""
        run = place / "2026-11-23T063000.123Z"
        run.mkdir(parents=True)
        if self.meta and self.meta.get("world") == _MADE_WORLD:
            self.meta |= {"world": _MADE_WORLD | {"directory": str(world_directory(place / "little-world"))}}
        for name, value in (("meta.json", self.meta), ("known.json", self.known), ("answers.json", self.answers)):
            if value is not None:
                (run / name).write_text(json.dumps(value))
        (run / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in self.events))
        if self.witness is not None:
            (run / "witness.jsonl").write_text("".join(json.dumps(line) + "\n" for line in self.witness))
        if self.home is not None:
            (run / "home.tar").write_bytes(home_tar(self.home))
        return run


def home_tar(files: Mapping[str, str | bytes]) -> bytes:
    """As an engine's `cp NAME:/home/agent -` packs it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted({"", *(os.path.dirname(name) for name in files)}):
            tar.addfile(_entry(f"agent/{name}".rstrip("/"), tarfile.DIRTYPE))
        for name, text in files.items():
            content = text.encode() if isinstance(text, str) else text
            entry = _entry(f"agent/{name}", tarfile.REGTYPE)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def world_directory(place: Path, texts: Mapping[str, str] = TEXTS) -> Path:
    """The little world on the host."""
    for path, text in texts.items():
        file = place / path.removeprefix("/world/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return place


def _entry(name: str, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = kind, 0o755
    return entry
