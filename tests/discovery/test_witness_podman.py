"""The witness of a rootless container, as the orchestrator's user runs it: through the read-only mount of the world,
and in the volume whose files are another user's."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.discovery.site import Site, block, lines_of

SCRIPT = "#!/bin/sh\nhead -n1 $1\n"
DIGEST = hashlib.sha256(SCRIPT.encode()).hexdigest()
TOOL = "/home/agent/tools/first.sh"
MAPPED = "import mmap; f = open('/world/data.csv', 'rb'); print(mmap.mmap(f.fileno(), 0, prot=1)[:8])"
STEPS: list[tuple[str, dict[str, Any]]] = [
    ("ls /world/puzzles", {"listed": ["/world/puzzles"]}),
    ("cat /world/README.md", {"read": ["/world/README.md"]}),
    (
        "find /world -type f | xargs cat >/dev/null",
        {
            "read": ["/world/README.md", "/world/data.csv", "/world/puzzles/hidden.txt"],
            "listed": ["/world", "/world/puzzles"],
        },
    ),
    ("echo /world/data.csv; stat /world/data.csv; wc -c /world/data.csv", {}),
    (f'python3 -c "{MAPPED}"', {}),  # the bound: a file that is mapped into memory
    ("mkdir tools/more", {"changed": ["/home/agent/tools/more"]}),
    (
        f"printf '#!/bin/sh\\nhead -n1 $1\\n' >{TOOL} && chmod +x {TOOL}",
        {"changed": [TOOL]},
    ),
    (f"{TOOL} /world/data.csv", {"read": ["/world/data.csv"], "tools": {TOOL: DIGEST}}),
    (f"sh {TOOL} /world/README.md >MAP.md", {"read": ["/world/README.md"], "tools": {TOOL: DIGEST}, "changed": ["M"]}),
    (f"true || {TOOL} /world/README.md", {}),
    (f"echo '# more' >>{TOOL}", {"changed": [TOOL]}),
    (f"ln -s /etc/passwd tools/p; cat tools/p >/dev/null; rm {TOOL}", {"changed": [TOOL, "/home/agent/tools/p"]}),
]


@pytest.mark.heavy
def test_reads_in_a_container_are_seen_from_the_host(place: Site) -> None:
    """Step by step, what the kernel told; and nothing of what was only printed."""
    place.orchestrate("".join(block(command) for command, _ in STEPS))
    first, *lines, last = lines_of(place.last_run() / "witness.jsonl")
    assert first == {"version": 1, "world": True, "home": True, "why": {}}
    for number, ((command, expected), line) in enumerate(zip(STEPS, lines, strict=True), 1):
        wanted = {"step": number, "read": [], "listed": [], "tools": {}, "changed": [], "overflow": False, **expected}
        wanted["changed"] = ["/home/agent/MAP.md" if path == "M" else path for path in wanted["changed"]]
        assert line == wanted, command
    assert last["step"] is None


@pytest.mark.heavy
def test_a_tool_made_and_run_in_one_command_is_seen(place: Site) -> None:
    """Its directory is new in each command, and watched within moments: of ten runs some are seen, and each that may
    have been missed is told."""
    command = (
        f"rm -rf tools; mkdir tools; printf '#!/bin/sh\\nhead -n1 $1\\n' >{TOOL}; chmod +x {TOOL}; {TOOL} /etc/issue"
    )
    place.orchestrate(block(command) * 10)
    lines = lines_of(place.last_run() / "witness.jsonl")[1:-1]
    seen = [line for line in lines if line["tools"].get(TOOL) == DIGEST]
    assert all(line in seen or "late" in line for line in lines)
    assert seen
