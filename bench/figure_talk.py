"""What is said to a model for the same decisions, in bytes at the provider's wire, and whether the work is done: by
mini-swe-agent, which keeps everything in the conversation, by our tools, and by our operations in text.

Each works for real, in a directory of its own; what lies there in the end is compared with what should."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from bench.peers import MINI, installed, mini
from bench.provider import Act, Provider, WholeAgent
from bench.tables import Table

ROUNDS = 1
"""Nothing here differs from round to round."""
HEAD = ("bytes for the same decisions", "calls", "sent MB", "ratio", "done")
PAGES = {f"pages/{number}.md": f"# Page {number}\n" + "A line of a page.\n" * 100 for number in range(40)}
BUILD = "seq -f '[{0}/20] cc -O2 -c unit_%g.c -o build/unit.o' 1 1500; echo step {0} >> built"
TASKS: dict[str, tuple[list[Act], Mapping[str, str]]] = {
    "large outputs": (
        [{"command": BUILD.format(number)} for number in range(20)],
        {"built": "".join(f"step {number}\n" for number in range(20))},
    ),
    "many files": ([{"path": path, "content": text} for path, text in PAGES.items()], PAGES),
    "small steps": (
        [{"command": f"echo {number} | tee -a numbers"} for number in range(60)],
        {"numbers": "".join(f"{number}\n" for number in range(60))},
    ),
}
"""What is decided, and what these files hold when the work is done."""


def run(directory: Path, count: int) -> list[Table]:
    there, notes = installed(MINI)
    rows = []
    with contextlib.ExitStack() as cleanup:
        provider = cleanup.enter_context(Provider())
        players: dict[str, WholeAgent | None] = dict.fromkeys(there)
        for way in ("tools", "operations"):
            agent = WholeAgent(directory / way, provider.url, tools=way == "tools")
            players[f"minifram, {way}"] = cleanup.enter_context(contextlib.closing(agent))
        for name, (acts, expected) in TASKS.items():
            first = 0
            for who, player in players.items():
                place = player.checkout if player else directory / name
                place.mkdir(exist_ok=True)
                provider.play(acts)
                player.work() if player else mini(place, provider.url)
                sent, calls = provider.sent(), sum(bool(request.body) for request in provider.requests)
                first = first or sent
                files = {place / path: text for path, text in expected.items()}
                done = all(path.is_file() and path.read_text() == text for path, text in files.items())
                shown = f"{sent / 1e6:.3f}", f"{sent / first:.2f}x", "yes" if done else "NO"
                rows.append((f"{name}: {who}", str(calls), *shown))
    return [Table("the same work, said in different ways", HEAD, rows, notes)]
