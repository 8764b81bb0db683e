"""What is placed before a run: by the policy, within the budget, the lower tiers giving way first."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from infra.cell.mind.search import REFERENCE, Hit
from infra.cell.mind.tiers import (
    CALL_TOKENS,
    DEFAULT,
    WHOLE,
    ContextPolicy,
    PlacedContext,
    Tier,
    assemble,
    policy_of,
    tokens_of,
)
from infra.shared.mind.layout import IDENTITY, INVARIANTS, LONG_TERM, PRINCIPLES, SKILLS_INDEX, WORKING
from tests.shared.rows import each_row
from tests.shared.texts import any_text

BUILT_IN = ContextPolicy(DEFAULT)
BOOT = {
    IDENTITY: "# Identity\nI am one.\n",
    PRINCIPLES: "# Principles\nLook first.\n",
    INVARIANTS: "# Invariants\nLog.\n",
}


def hit(id: str, kind: str = "memory", date: str = "", text: str = "some words", is_neighbour: bool = False) -> Hit:
    path = {"belief": "memory/beliefs.md", "memory": LONG_TERM, "summary": "logs/weekly/2026-W05.md"}[kind]
    return Hit(path, id, id, text, 1.0, is_neighbour, kind=kind, date=date)


def text_of(placed: PlacedContext, path: str) -> str:
    return next((part.text for part in placed.parts if part.path == path), "")


def test_a_policy_is_read_from_headings_and_bullets() -> None:
    text = """# Context policy
Words before. - boot/no.md

## ALWAYS
- /agent/boot/identity.md
- `boot/operating_principles.md` in full
* /boot/invariants.md
- the current task
## HIGH (as room allows)
- memory/working.md
- logs/daily/*.md
## Notes
- memory/long_term.md
## MEDIUM
- memory/beliefs.md
## LOW
"""
    policy = policy_of(text)
    assert policy == ContextPolicy(
        {
            Tier.ALWAYS: (IDENTITY, PRINCIPLES, INVARIANTS),
            Tier.HIGH: (WORKING, "logs/daily/*.md"),
            Tier.MEDIUM: ("memory/beliefs.md",),
            Tier.LOW: (),
        }
    )


@each_row(
    "text",
    (
        "",
        "words",
        "\0\0",
        "## ALWAYS\n\n## HIGH\n",
        "<<<<<<< ours\n# Context\n",
        "## LOW\n- logs/events\n",
        "## always\n- a/b.md",
    ),
)
def test_a_broken_policy_gives_the_built_in_one_and_says_so(text: str) -> None:
    policy = policy_of(text)
    assert policy.paths == DEFAULT
    assert "built-in policy is used" in policy.problem


def test_what_the_pm_wrote_is_placed_whatever_the_policy_lacks() -> None:
    policy = policy_of("## ALWAYS\n- skills/index.md\n- `../../etc/passwd`\n- /etc/../x.md\n")
    assert policy.paths[Tier.ALWAYS] == (*WHOLE, SKILLS_INDEX)
    assert policy.paths[Tier.MEDIUM] == DEFAULT[Tier.MEDIUM], "of a file that was cut"
    assert "no heading for HIGH, MEDIUM:" in policy.problem
    assert "ALWAYS lacks boot/identity.md" in policy.problem
    assert "'../../etc/passwd' is no path" in policy.problem


@given(any_text())
def test_any_policy_is_read(text: str) -> None:
    assert set(WHOLE) <= set(policy_of(f"## HIGH\n{text}").paths[Tier.ALWAYS])


def test_all_is_placed_whole_that_has_room() -> None:
    files = {
        **BOOT,
        WORKING: "## Now\nwork\n",
        "logs/daily/2026-01-30.md": "old",
        "logs/daily/2026-01-31.md": "new",
        "skills/learned/web/SKILL.md": "how",
        "memory/other.md": "no",
    }
    placed = assemble(BUILT_IN, files, [hit("L-000001")], 12_000, "words")
    assert [(part.tier, part.path) for part in placed.parts] == [
        *((Tier.ALWAYS, path) for path in WHOLE),
        *((Tier.HIGH, path) for path in (WORKING, "logs/daily/2026-01-31.md", "skills/learned/web/SKILL.md")),
        (Tier.MEDIUM, ""),
    ]
    assert (placed.compressed, placed.left_out) == ((), ())
    assert all(text_of(placed, part.path) == files[part.path] for part in placed.parts if part.path)
    assert REFERENCE in placed.parts[-1].text
    assert placed.parts[-1].sections == (f"{LONG_TERM}#L-000001",)


def test_what_the_search_found_gives_way_before_the_files_and_they_before_the_boot() -> None:
    sections = "".join(f"## Part {at}\n{'work ' * 40}\n" for at in range(20))
    files = {**BOOT, WORKING: f"# Working\n{sections}", SKILLS_INDEX: "skills " * 50}
    hits = [hit(f"L-{at:06}", text="words " * 200) for at in range(8)]
    states = list[tuple[bool, bool, bool]]()
    for budget in range(8_000, 300, -100):
        placed = assemble(BUILT_IN, files, hits, budget)
        cut = {part.tier for part in placed.parts if part.cut} | {Tier.MEDIUM for _ in placed.left_out if _ != WORKING}
        cut |= {Tier.HIGH} if WORKING in placed.left_out else set()
        states.append((Tier.MEDIUM in cut, Tier.HIGH in cut, Tier.ALWAYS in cut))
    assert sorted(states) == states, "from none, to MEDIUM, to HIGH as well, to all"
    assert {(False, False, False), (True, False, False), (True, True, False)} <= set(states)


def test_the_newest_sections_stay_and_the_cut_is_said() -> None:
    files = {**BOOT, WORKING: "# Working\n" + "".join(f"## Part {at}\n{'work ' * 100}\n" for at in range(10))}
    placed = assemble(BUILT_IN, files, [], 1_200)
    text = text_of(placed, WORKING)
    assert "## Part 9" in text
    assert "## Part 0" not in text
    assert f"sections whole, for want of room; {WORKING} has all]" in text
    assert placed.compressed == (WORKING,)


def test_beliefs_stay_before_narrative_and_recent_before_old() -> None:
    hits = [
        hit("W05", "summary", "2026-02-01", "words " * 200),
        hit("L-000001", "memory", "2026-01-01", "words " * 200),
        hit("L-000002", "memory", "2026-01-09", "words " * 200),
        hit("B-000001", "belief", "2026-01-01", "words " * 200),
        hit("B-000002", "belief", "2026-01-09", "words " * 200, is_neighbour=True),
    ]
    order = list[str]()
    for budget in range(3_000, 200, -20):
        there = [each.id for each in assemble(ContextPolicy({}), {}, hits, budget).hits]
        order += [each.id for each in hits if each.id not in there and each.id not in order]
    assert (set(order[:2]), order[2]) == ({"B-000002", "W05"}, "L-000001")
    assert order[3:] in (["L-000002"], ["L-000002", "B-000001"])


def test_identity_larger_than_the_budget_is_cut_with_a_loud_note() -> None:
    files = {**BOOT, IDENTITY: "# Identity\n" + "I am. " * 20_000, SKILLS_INDEX: "- a skill\n"}
    placed = assemble(BUILT_IN, files, [hit("L-000001")], 2_000)
    assert text_of(placed, IDENTITY).startswith(f"[!! CUT: {IDENTITY} is larger than its room")
    assert text_of(placed, PRINCIPLES) == BOOT[PRINCIPLES]
    assert text_of(placed, INVARIANTS) == BOOT[INVARIANTS]
    assert IDENTITY in placed.compressed


def test_no_other_file_takes_more_than_half() -> None:
    files = {**BOOT, SKILLS_INDEX: "skills " * 20_000, WORKING: "work " * 20_000}
    placed = assemble(BUILT_IN, files, [hit("L-000001")], 6_000)
    assert [part.path for part in placed.parts] == [*WHOLE, SKILLS_INDEX, WORKING, ""]
    assert all(part.tokens <= 3_000 for part in placed.parts)


def test_a_file_that_is_placed_whole_is_not_found_once_more() -> None:
    policy = ContextPolicy({Tier.ALWAYS: WHOLE, Tier.HIGH: (LONG_TERM,)})
    placed = assemble(policy, {**BOOT, LONG_TERM: "## L-000001\nx\n"}, [hit("L-000001")], 5_000)
    assert placed.hits == ()


_WORDS = random.Random(1).choices(["a", "längeres", '"', "\n", "日本"], k=400)
_TEXTS = st.builds(
    lambda seed, sections, words: (
        "# T\n" + "".join(f"## S-{at} é\n" + " ".join(_WORDS[seed : seed + words]) + "\n" for at in range(sections))
    ),
    st.integers(0, 9),
    st.integers(0, 12),
    st.integers(0, 300),
)
_HITS = st.lists(
    st.builds(
        hit,
        st.sampled_from(["A-1", "A-2", "A-3"]),
        st.sampled_from(["belief", "memory", "summary"]),
        st.sampled_from(["", "2026-01-01", "2026-02-01"]),
        _TEXTS,
        is_neighbour=st.booleans(),
    ),
    max_size=6,
)


@given(
    st.dictionaries(st.sampled_from([*WHOLE, SKILLS_INDEX, WORKING, "logs/daily/2026-01-31.md"]), _TEXTS),
    _HITS,
    st.integers(-5, 6_000),
)
def test_never_over_the_budget_and_always_the_boot(files: dict[str, str], hits: list[Hit], budget: int) -> None:
    placed = assemble(BUILT_IN, files, hits, budget, "words")
    assert placed.tokens <= max(200, budget)
    assert placed.tokens == sum(
        CALL_TOKENS + tokens_of(part.path or "words") + tokens_of(part.text) for part in placed.parts
    )
    assert placed == assemble(BUILT_IN, dict(reversed(files.items())), hits, budget, "words"), "of the same, the same"
    if budget >= 600:
        assert [part.path for part in placed.parts if part.tier is Tier.ALWAYS] == [
            path for path in DEFAULT[Tier.ALWAYS] if path in files
        ]
    for part in placed.parts:
        assert part.cut or not part.path or part.text == files[part.path]
    named = {part.path for part in placed.parts} | set(placed.left_out)
    assert all(path in named for path, text in files.items() if text.strip()), "what is left out is named"
