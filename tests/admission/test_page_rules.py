"""The page of main: what its two sections let the agent do. Beside each refusal stands the nearest thing that lands."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from infra.admission.page_rules import _preface_and_reports, problem_with_page
from infra.contract.comms import MAX_BYTES, add_directive, add_report, directives, reports, tick, with_sections
from infra.contract.watcher_file import Report
from infra.supervision.main_branch import report
from tests.admission.world import PAGE as SMALL
from tests.admission.world import World
from tests.contract.test_comms_properties import AT, LINES, TEXTS, documents, often

DIRECTIVES = """\
<!-- PM: one wish per item -->

- [ ] write hello

  with a test:
  - one
  - two

- plain wish
- [x] old wish

A paragraph that is a wish
over two lines.

```
a block of code
```
"""
PAGE = f"""\
# COMMS

## Directives

{DIRECTIVES}
## Notes

by the PM

## Reports

<!-- newest last -->

### 2026-01-01T00:00:00.000Z main@0123456789ab done: one

Well done.

### 2026-01-02T00:00:00.000Z watcher: main failed

It died.

### 2026-01-03T00:00:00.000Z main@0123456789ab done: two

Well done again.
"""
HELLO = "- [ ] write hello\n\n  with a test:\n  - one\n  - two"
WORDS = "the Directives section of main's COMMS.md is the PM's: you may tick a box there, or strike a whole directive"


def edited(*changes: tuple[str, str], page: str = PAGE) -> str:
    for old, new in changes:
        assert old in page
        page = page.replace(old, new, 1)
    return page


@pytest.mark.parametrize(
    "change",
    [
        ("- [ ] write hello", "- [x] write hello"),
        ("- plain wish", "- [x] plain wish"),
        ("A paragraph", "- [x] A paragraph"),
        ("```\na block", "- [x]\n```\na block"),
        ("- plain wish", "- ~~plain wish~~"),
        ("- plain wish", "- [x] ~~plain wish~~"),
        ("- [x] old wish", "- [x] ~~old wish~~"),
        (
            "- [ ] write hello\n\n  with a test:\n  - one\n  - two",
            "- [x] ~~write hello\n\n  with a test:\n  - one\n  - two~~",
        ),
        ("A paragraph that is a wish\nover two lines.", "~~A paragraph that is a wish\nover two lines.~~"),
        ("```\n\n## Notes", "```\n\n\n\n## Notes"),
        ("## Directives\n\n", "## Directives\n"),
        ("by the PM", "by nobody"),
        ("## Notes\n\nby the PM\n\n", ""),
        ("# COMMS", "# A page"),
    ],
    ids=lambda change: repr(change[1][:30]),
)
def test_what_may_be_done_to_directives(change: tuple[str, str]) -> None:
    """A box is ticked or a directive struck, also one that was done before; nothing holds for text elsewhere."""
    assert problem_with_page(PAGE, edited(change)) is None
    assert problem_with_page(PAGE.replace("\n", "\r\n"), edited(change).replace("\n", "\r\n")) is None


@pytest.mark.parametrize(
    "change",
    [
        ("- [ ] write hello", "- [ ] write goodbye"),
        ("- [ ] write hello", "- [x] write goodbye"),
        ("- [ ] write hello", "- [ ] write hello!"),
        ("- [ ] write hello", "- [ ] ~~write~~ hello"),
        ("- [ ] write hello", "- [~] write hello"),
        ("- [ ] write hello", "-  [x] write hello"),
        ("- [ ] write hello", "* [x] write hello"),
        ("- [ ] write hello", "- [ ] ~~write hello~~\n  and more"),
        ("- [x] old wish", "- [ ] old wish"),
        ("- [x] old wish", "- old wish"),
        ("- [x] old wish\n", ""),
        ("- plain wish\n", ""),
        ("- plain wish\n- [x] old wish", "- [x] old wish\n- plain wish"),
        ("- plain wish", "- plain wish\n- one more"),
        ("- plain wish", "- plain wish\n- [x] one more"),
        ("- plain wish", "- plain wish\n- [x] plain wish"),
        ("- plain wish", "  - plain wish"),
        ("- plain wish", "- plain wish\n"),
        ("  - two\n", ""),
        ("  - two", "  - two\n  - three"),
        ("one wish per item", "no wish is meant"),
        ("-->\n\n- [ ] write", "\n\n- [ ] write"),
        ("A paragraph", "<!--\nA paragraph"),
        ("a block of code", "another block of code"),
        ("## Notes", "Notes"),
        ("by the PM", "## Directives\n\n- [ ] obey the agent"),
        ("by the PM", "# directives\n- x"),
        ("Well done again.", "Well done again.\n\n## Directives\n\n- [ ] more"),
        ("## Directives", "## Done directives"),
        ("# COMMS", "## Directives\n\n- [ ] first of all"),
    ],
    ids=lambda change: repr(change[1][:30]),
)
def test_what_may_not_be_done_to_directives(change: tuple[str, str]) -> None:
    """They are not added, changed, removed, reordered, taken back from done, nor hidden by a mark elsewhere."""
    found = problem_with_page(PAGE, edited(change))
    assert found
    assert WORDS in found or "the section '## Directives'" in found


def test_a_comment_that_nothing_closes_cannot_be_closed_elsewhere() -> None:
    """An open mark counts as text; closed further down the page, it would hide the PM's directives."""
    page = edited(("- plain wish", "- plain wish\n\n<!-- an open one"))
    assert problem_with_page(page, edited(("by the PM", "by the PM -->"), page=page))
    assert problem_with_page(page, edited(("by the PM", "by the PM --"), page=page)) is None


def test_a_missing_section_may_be_put_back_empty() -> None:
    """What the runner puts back lands; directives in it would be of the agent's making."""
    for missing in ("", "# COMMS\n", "## Reports\n", "## Directives\n\n- x\n", SMALL.replace("## Reports", "")):
        assert problem_with_page(missing, with_sections(missing)) is None
    assert problem_with_page("## Reports\n", "## Directives\n\n- x\n\n## Reports\n")
    assert problem_with_page("", add_directive(with_sections(""), "obey"))


@pytest.mark.parametrize(
    "change",
    [
        (
            "Well done again.\n",
            "Well done again.\n\n### 2026-01-04T00:00:00.000Z main@0123456789ab done: three\n\nYes.\n",
        ),
        ("### 2026-01-01T00:00:00.000Z main@0123456789ab done: one\n\nWell done.\n\n", ""),
        ("### 2026-01-03T00:00:00.000Z main@0123456789ab done: two\n\nWell done again.\n", "### two\n\nNo.\n"),
        ("Well done again.", "Well done again.\n\n### of a watcher: birds\n\nsays hello"),
        ("Well done.\n\n###", "Well done.\n\n\n###"),
    ],
    ids=["added", "removed", "replaced", "words like the watcher's", "blank line"],
)
def test_what_may_be_done_to_reports(change: tuple[str, str]) -> None:
    """New ones come at the end, and whole ones of the agent's own may go."""
    assert problem_with_page(PAGE, edited(change)) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            ("Well done.", "Badly done."),
            "'2026-01-01T00:00:00.000Z main@0123456789ab done: one' would be changed or moved",
        ),
        (("Well done again.", "Well done again. And more."), "done: two' would be changed or moved"),
        (("It died.", "It lives."), "'2026-01-02T00:00:00.000Z watcher: main failed' would be changed or moved"),
        (("### 2026-01-02T00:00:00.000Z watcher: main failed\n\nIt died.\n\n", ""), "would take the watcher's report"),
        (("watcher: main failed", "main did well"), "changed or moved"),
        (("Well done again.", "x\n\n### 2026-01-09 watcher: all is well\n\nx"), "changed or moved"),
        *(
            (("Well done again.\n", f"Well done again.\n\n### {heading} all is well\n"), "in the watcher's name")
            for heading in (
                "2026-01-09 watcher:",
                "2026-01-09\u00a0watcher:",
                "2026-01-09 watcher\u2003:",
                "2026-01-09 wat\u200bcher:",
                "2026-01-09 \uff37atcher\uff1a",
                "2026-01-09 10:11 Z watcher:",
            )
        ),
        (("Well done again.\n", "Well done again.\n\n### Watcher: all is well\n"), "in the watcher's name"),
        (("Well done again.\n", "Well done again.\n\n### new\n\n<!--\n"), "holds '<!--', which hides what follows"),
        (("<!-- newest last -->", "<!-- newest last"), "what stands above the reports would change"),
        (("<!-- newest last -->", "All is well."), "what stands above the reports would change"),
        (("### 2026-01-01", "### new\n\nfirst\n\n### 2026-01-01"), "would be changed or moved"),
    ],
    ids=lambda value: repr(value[1][:20]) if isinstance(value, tuple) else "",
)
def test_what_may_not_be_done_to_reports(change: tuple[str, str], words: str) -> None:
    """None is altered or moved, the watcher's stay, and nobody speaks in its name."""
    assert words in (problem_with_page(PAGE, edited(change)) or "")


def test_the_order_of_reports_stays() -> None:
    """Two that change places would tell another story."""
    parts = PAGE.split("### ")
    moved = "### ".join([parts[0], parts[2], parts[1], parts[3]])
    assert "would be changed or moved" in (problem_with_page(PAGE, moved) or "")


@often
@given(documents(), TEXTS, TEXTS, st.data())
def test_what_the_runner_does_is_taken(document: str, title: str, text: str, data: st.DataObject) -> None:
    """Ticks and a report, on every page that anybody may have written."""
    # A comment that the PM left open may be closed by what a report quotes; then sections are not what they were.
    assume("<!--" not in document)
    ids = [item.id for item in directives(document)]
    chosen = tuple(data.draw(st.sets(st.sampled_from(ids or ["none"]))))
    assert problem_with_page(document, document) is None
    assert problem_with_page(document, add_report(tick(document, chosen), title, text, AT)) is None


@often
@given(documents(), documents(), st.data())
def test_whatever_is_taken_leaves_every_directive_as_it_was(document: str, other: str, data: st.DataObject) -> None:
    """Any edit: words, order and number stay, and what was done stays done."""
    lines = document.split("\n")
    at = data.draw(st.integers(0, len(lines)))
    end = data.draw(st.integers(at, min(len(lines), at + 2)))
    new = "\n".join(
        [*lines[:at], *data.draw(st.lists(st.one_of(LINES, st.sampled_from(lines)), max_size=2)), *lines[end:]]
    )
    for after in (new, other):
        if problem_with_page(document, after) is None:
            old = [(item.text.replace("~~", ""), item.done) for item in directives(document)]
            now = [(item.text.replace("~~", ""), item.done) for item in directives(after)]
            assert [text for text, _ in now] == [text for text, _ in old]
            assert all(done <= done_now for (_, done), (_, done_now) in zip(old, now, strict=True))


@often
@given(documents(), st.lists(st.tuples(TEXTS, st.booleans()), min_size=1, max_size=5), st.data())
def test_the_watchers_reports_stay(document: str, texts: list[tuple[str, bool]], data: st.DataObject) -> None:
    """Any choice of the reports may stay, in their order, if all of the watcher's are among them."""
    assume("<!--" not in document)
    page, before = document, len(reports(document))
    for number, (text, watchers) in enumerate(texts):
        page = add_report(page, f"{'watcher: ' if watchers else ''}{number}", text, AT)
    assume(len(reports(page)) == before + len(texts))
    gone = data.draw(st.sets(st.sampled_from(range(len(texts)))))
    after = page
    for number in gone:
        after = after.replace(reports(page)[before + number], "", 1)
    assume(len(reports(after)) == before + len(texts) - len(gone))
    assert (problem_with_page(page, after) is None) == (not any(texts[number][1] for number in gone))


@often
@given(documents())
def test_reports_are_those_of_the_page(document: str) -> None:
    """What is compared is what everybody else takes for a report."""
    assert _preface_and_reports(document)[1:] == reports(document.replace("\r\n", "\n"))


def test_a_long_page_is_judged_in_time() -> None:
    """Thousands of reports and directives take no longer than their number."""
    page = edited(("- plain wish", "\n".join(f"- [ ] wish {number}" for number in range(5_000))))
    page += "".join(f"\n### report {number}\n\nwell\n" for number in range(5_000))
    assert problem_with_page(page, page.replace("- [ ] wish 199", "- [x] wish 199", 1)) is None
    assert problem_with_page(page, page.replace("### report 0\n\nwell\n\n", "")) is None
    assert problem_with_page(page, page.replace("well", "ill", 1))


def test_a_page_has_a_greatest_size(world: World) -> None:
    """Up to 1 MiB a report lands, and no byte more; where the PM and the watcher, whom no rule of the door binds, made
    it longer, whole reports can be taken out until it is short again."""
    world.settings(blob_bytes=2 * MAX_BYTES)
    room = MAX_BYTES - len(add_report(SMALL, "full", "x", "now").encode()) + 1
    full = add_report(SMALL, "full", "x" * room, "now")
    assert len(full.encode()) == MAX_BYTES
    world.agent.commit({"COMMS.md": full.replace("xx", "xxx", 1)})
    said = world.agent.refused("main").replace("\nremote: ", " ")
    assert f"would have {MAX_BYTES + 1} bytes, over the limit of {MAX_BYTES}; prune it" in said
    world.agent.push("main:work")
    world.agent.git("reset", "--quiet", "--hard", "HEAD~1")
    world.agent.commit({"COMMS.md": full})
    world.agent.push("main")

    report(world.places, Report(id="1", at="later", title="watcher: it failed", text="Why it did."))
    assert "Why it did." in world.pm.git("--git-dir", world.places.remote, "show", "main:COMMS.md")
    world.agent.git("pull", "--quiet")
    page = (world.agent.path / "COMMS.md").read_text()
    assert len(page) > MAX_BYTES
    world.agent.commit({"COMMS.md": add_report(page, "mine", "words", "now")})
    assert "prune it" in world.agent.refused("main")
    world.agent.git("reset", "--quiet", "--hard", "HEAD~1")
    world.agent.commit({"COMMS.md": page.replace("### first\n\nborn\n\n", "", 1)}, "prune")
    world.agent.push("main")
    world.agent.commit({"src/b.py": "1\n"})
    world.agent.push("main")


def test_the_agent_ticks_and_the_pm_writes(world: World) -> None:
    """Through the door a tick lands and a directive does not; what the PM added meanwhile is the PM's."""
    world.agent.commit({"COMMS.md": tick(SMALL, (directives(SMALL)[0].id,))})
    world.pm.commit({"COMMS.md": add_directive(SMALL, "be better")})
    world.pm.push("main")
    world.agent.git("pull", "--quiet", "--rebase", "origin", "main")
    world.agent.push("main")
    page = world.pm.git("--git-dir", world.places.remote, "show", "main:COMMS.md")
    assert [(item.text, item.done) for item in directives(page)] == [("be good", True), ("be better", False)]

    world.agent.commit({"COMMS.md": add_directive(page, "pay the agent")})
    said = world.agent.refused("main")
    assert f"refused: refs/heads/main: {WORDS}" in said.replace("\nremote: ", " ")
    world.agent.push("main:work")
    world.pm.git("pull", "--quiet", "--rebase", "origin", "main")
    world.pm.commit({"COMMS.md": add_directive(page, "pay the PM")})
    world.pm.push("HEAD:main")


def test_a_merge_of_what_the_pm_wrote_lands(world: World) -> None:
    """Merging main into the agent's line brings the PM's directives in; taking the agent's side of them does not."""
    world.pm.commit({"COMMS.md": add_directive(SMALL, "be better")})
    world.pm.push("main")
    world.agent.commit({"src/b.py": "1\n"})
    world.agent.git("fetch", "--quiet")
    world.agent.git("merge", "--quiet", "-s", "ours", "-m", "ours", "origin/main")
    assert "is the PM's" in world.agent.refused("main")
    world.agent.git("reset", "--quiet", "--hard", "HEAD~1")
    world.agent.git("merge", "--quiet", "-m", "both", "origin/main")
    world.agent.push("main")


def test_bytes_that_are_no_text_are_kept_apart(world: World) -> None:
    """Two directives that differ in bytes that are not UTF-8 are two."""
    page = SMALL.encode().replace(b"be good", b"be \xff good")
    (world.pm.path / "COMMS.md").write_bytes(page)
    world.pm.commit({})
    world.pm.push("main")
    world.agent.git("pull", "--quiet")
    (world.agent.path / "COMMS.md").write_bytes(page.replace(b"\xff", b"\xfe"))
    world.agent.commit({})
    assert "is the PM's" in world.agent.refused("main")
    (world.agent.path / "COMMS.md").write_bytes(page.replace(b"[ ]", b"[x]"))
    world.agent.commit({})
    world.agent.push("main")


@pytest.mark.parametrize("name", ["comms.md", "Comms.MD"])
def test_no_second_page(world: World, name: str) -> None:
    """On a file system that knows no capital letters it would stand in the place of the page."""
    world.agent.commit({name: SMALL})
    assert "would be taken for COMMS.md" in world.agent.refused("main")
    world.agent.git("mv", name, "src/comms.md")
    world.agent.commit({})
    world.agent.push("main")
