"""A page that a script fills, through the eye beside raw playwright, each with a warm browser and a context of its own.

Playwright asks the site itself and waits for the load alone; the eye's page goes through the judging proxy, and is
waited for until nothing is asked for any more. It opens the next context ahead, while playwright's page is measured."""

from __future__ import annotations

import asyncio
from pathlib import Path

from playwright.async_api import async_playwright

from bench.tables import Table, rounds, timed, times
from infra.keep.eye.messages import Look
from infra.keep.web_door.proxy import Errand
from tests.keep.eye.test_eye import PAGES, eye_at, looking
from tests.keep.eye.test_soak import memory

ROUNDS, GOAL = 20, 1.2
RAW, EYE = "playwright", "the eye"
PARTS = "".join(f"<h2>part {number}</h2><p>words of it and a <a href=/{number}>link</a>" for number in range(100))
PAGE = f"<title>A page</title>{PARTS}{PAGES['/shell']}"
WORDS = ["--no-sandbox", "--disable-gpu"]
"""Playwright's usual ones as root."""


def run(directory: Path, count: int) -> list[Table]:
    PAGES["/filled"] = PAGE
    with eye_at(directory / "e.sock") as eye, asyncio.Runner() as runner:
        site, playing = looking(eye), async_playwright()
        pool, at = runner.run(site.__aenter__())
        playwright = runner.run(playing.__aenter__())
        raw = runner.run(playwright.chromium.launch(executable_path="/usr/bin/chromium", args=WORDS))

        async def by_playwright() -> None:
            context = await raw.new_context()
            page = await context.new_page()
            await page.goto(f"http://127.0.0.1:{at.rpartition(':')[2]}/filled")
            await page.inner_text("body")
            await context.close()

        async def by_eye() -> None:
            await pool.look(Look(f"{at}/filled"), Errand("site.example"))

        ways = {RAW: timed(lambda: runner.run(by_playwright())), EYE: timed(lambda: runner.run(by_eye()))}
        took = rounds(count, ways, warm=3)
        held = [f"{memory(eye, word) / (1 << 20):.0f} MiB" for word in ("", "--type=renderer")]
        for each in (raw.close(), playing.__aexit__(), site.__aexit__(None, None, None)):
            runner.run(each)
    note = f"between two pages, the next one open, the browser holds {held[0]}, of it its renderers {held[1]}"
    return [times(f"a page of {len(PAGE) / 1000:.0f} kB", took, {EYE: GOAL}, note)]
