"""What a newborn agent reads before the first word of work is short: each request pays for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.cell.loop.context import FIRST_TOKENS_PER_BYTE
from infra.shared.conversation import to_plain
from tests.cell.cell import Cell, write
from tests.cell.loop.replies import says
from tests.cell.minds import PmMind
from tests.cell.run.test_run import work

PROJECT = Path(__file__).parents[3]
MOST_TOKENS = 3500


def test_the_rules_before_the_first_word_of_work_are_few(cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
    """SYSTEM.md, the tools, the mind's files and the briefing, in tokens as the cell counts them; all are printed."""
    born = PROJECT / "bot-template/mind"
    PmMind(cell, {path.relative_to(born).as_posix(): path.read_text() for path in born.rglob("*") if path.is_file()})
    write(f"{cell.boot().code}/SYSTEM.md", (PROJECT / "SYSTEM.md").read_text())
    cell.tell("x")
    _, model = work(cell, says("Done."))
    request = model.requests[0]

    def tokens(part: object) -> int:
        text = json.dumps(part, ensure_ascii=False).replace(f"{cell.places.bot}/", "/bot/")
        return round(len(text.replace(cell.places.remote, "/remote").encode()) * FIRST_TOKENS_PER_BYTE)

    plain = to_plain(request)
    blocks = [block for message in plain["messages"] for block in message["content"]]
    parts = {"SYSTEM.md": tokens(plain["system"][0])}
    parts |= {f"tool {each['name']}": tokens(each) for each in plain["tools"]}
    parts |= {f"block {number}": tokens(each) for number, each in enumerate(blocks, 1)}
    with capsys.disabled():
        print(f"\n{sum(parts.values())} tokens of rules:", parts)
    assert sum(parts.values()) <= MOST_TOKENS
