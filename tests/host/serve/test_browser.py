"""The page in a real browser: with and without JavaScript, for a person with a keyboard or a screen reader, light and
dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from host.serve.screens import SCREENS
from tests.host.desk import Desk
from tests.host.serve.served import Served, furnish, serving

CHROMIUM = "/usr/bin/chromium"
WORDS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
]
"""The tests run as root, and reach nothing but loopback."""
PATHS = ["/", *(f"/a/agent/{name}" for name in SCREENS), "/a/agent/review/improve", "/a/agent/mind/B-000001"]
SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=WORDS)
        yield browser
        browser.close()


def opened(browser: Browser, served: Served, **options: object) -> BrowserContext:
    """A context that has opened the link, as a person does once."""
    context = browser.new_context(base_url=served.base, **options)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(served.link)
    page.close()
    return context


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_screen_has_a_fault_that_axe_finds(browser: Browser, served: Served, scheme: str) -> None:
    """Nor does one scroll sideways, wide or narrow."""
    context = opened(browser, served, color_scheme=scheme)
    page, axe = context.new_page(), Axe()
    for path in PATHS:
        page.goto(path)
        found = axe.run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
        for width in (1280, 360):
            page.set_viewport_size({"width": width, "height": 640})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
    context.close()


@pytest.mark.parametrize("name", ["now", "review"])
def test_a_screen_reader_is_told(browser: Browser, served: Served, name: str) -> None:
    """The outline of two screens: what stands where, and by which name (`snapshots/`)."""
    context = opened(browser, served)
    page = context.new_page()
    page.goto({"now": "/a/agent/now", "review": "/a/agent/review/improve"}[name])
    expect(page.locator("body")).to_match_aria_snapshot((SNAPSHOTS / f"{name}.yaml").read_text())
    context.close()


def test_without_javascript_everything_works(browser: Browser, desk: Desk) -> None:
    """A directive is given, a branch is read, merged and rolled back, by forms alone."""
    furnish(desk)
    before = desk.main()
    with serving(desk) as served:
        context = opened(browser, served, java_script_enabled=False)
        page = context.new_page()
        page.goto("/a/agent/now")
        page.get_by_label("A directive").fill("write a haiku")
        page.get_by_role("button", name="Send as directive").click()
        expect(page.get_by_role("status")).to_contain_text("told")
        page.get_by_role("link", name="improve").click()
        expect(page.locator("main")).to_contain_text("import os")
        page.get_by_role("button", name="Merge improve@").click()
        expect(page.get_by_role("status")).to_contain_text("merged")
        page.get_by_role("link", name="Timeline").click()
        page.get_by_role("button", name=f"Roll back to {before[:7]}").or_(
            page.get_by_role("button", name="Roll back to")
        ).last.click()
        expect(page.get_by_role("status")).to_contain_text("rolled back")
        page.get_by_role("link", name="Reports").click()
        expect(page.locator("main")).to_contain_text("The keep saw no commit and no test")
        context.close()
    assert "infra/cell/b.py" not in desk.git()("ls-tree", "-r", "--name-only", "main")


def test_what_changes_comes_by_itself_and_what_is_written_stays(browser: Browser, desk: Desk) -> None:
    with serving(desk) as served:
        context = opened(browser, served)
        page, other = context.new_page(), context.new_page()
        other.goto("/a/agent/now")
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto("/a/agent/now")
        page.get_by_label("A directive").fill("half a thou")
        desk.report("main@0123abc done: first", "It is there.")
        expect(other.locator("main")).to_contain_text("done: first")  # so this page has heard of it, too
        expect(page.get_by_label("A directive")).to_have_value("half a thou")
        page.get_by_label("A directive").fill("")
        page.get_by_role("link", name="Status").focus()
        expect(page.locator("main")).to_contain_text("done: first")
        desk.report("main@0123abc done: second", "It is there.")
        expect(page.locator("main")).to_contain_text("done: second")
        assert faults == []
        context.close()
