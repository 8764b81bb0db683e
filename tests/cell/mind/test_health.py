"""What is wrong with a sandbox, by what the runner sees of it."""

from __future__ import annotations

from infra.cell.mind.health import SandboxFacts, problems_with_sandbox
from tests.shared.rows import each_row

SEALED = SandboxFacts(
    at="2026-01-31T10:00:00Z",
    contained=True,
    system="Linux",
    uid=1000,
    link="/bot/mind",
    mind_writable=True,
    free_bytes=9 << 30,
)
FACTS = {name: getattr(SEALED, name) for name in SEALED.__struct_fields__}


@each_row(
    "changes,words",
    [
        ({"system": "Darwin"}, "the system is Darwin, expected Linux"),
        ({"contained": False}, "it does not run in the container"),
        ({"uid": 0}, "uid 0"),
        ({"capabilities": 1}, "capabilities 0x1"),
        ({"root_writable": True}, "the root file system can be written"),
        ({"remote_writable": True}, "the repository can be written"),
        ({"mind_writable": False}, "the mind cannot be written"),
        ({"link": "/etc"}, "/agent leads to /etc, expected /bot/mind"),
        ({"free_bytes": 1 << 20}, "1 MiB free, expected 100"),
    ],
)
def test_each_thing_that_is_wrong_is_named(changes: dict[str, object], words: str) -> None:
    [found] = problems_with_sandbox(SandboxFacts(**(FACTS | changes)), True, "/bot/mind")
    assert words in found


def test_a_sound_sandbox_has_no_problem() -> None:
    """Without a container less is expected."""
    assert problems_with_sandbox(SEALED, True, "/bot/mind") == []
    facts = SandboxFacts(**(FACTS | {"contained": False, "uid": 0, "root_writable": True, "remote_writable": True}))
    assert problems_with_sandbox(facts, False, "/x") == []
