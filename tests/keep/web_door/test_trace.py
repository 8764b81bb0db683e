"""The record of what the web door was asked."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Literal

from infra.keep.allowance import Allowance
from infra.keep.web_door.trace import Trace, TraceLine


def line(status: Literal["ok", "denied"]) -> TraceLine:
    return TraceLine("", "", "", "fetch_page", "", 0, status)


def test_refusals_in_a_row_wait_for_their_lines(tmp_path: Path) -> None:
    """A few are told at once; more would fill the file. What is served waits for none of them."""

    async def play(trace: Trace) -> None:
        async with asyncio.timeout(20):
            for _ in range(2):
                await trace.record(line("denied"))
            refused = [asyncio.create_task(trace.record(line("denied"))) for _ in range(3)]
            await asyncio.sleep(0)
            await trace.record(line("ok"))
            assert not any(each.done() for each in refused)
            await asyncio.gather(*refused)

    with (tmp_path / "web.jsonl").open("ab") as file:
        asyncio.run(play(Trace(file.fileno(), lambda: None, Allowance(2, 0.5))))
    written = [json.loads(each)["status"] for each in (tmp_path / "web.jsonl").read_text().splitlines()]
    assert written == ["denied", "denied", "ok", "denied", "denied", "denied"]
