"""Whether a candidate becomes a learned skill, and whether it stays one, by what the events tell of it. Pure.

The model writes no evidence: trials and uses are events of the dispatcher, and each is about one content of the folder,
by its hash. The last condition, a line with its confidence in the index, is met by the promotion itself."""

from __future__ import annotations

import re
from typing import Final, Literal, get_args

from infra.cell.mind.history import EntryTold, History, Moved, SkillUse, Trial
from infra.cell.mind.skills import CANDIDATES, CORE, FAILURE_MODES, LEARNED, SELF_TEST, Skill, Skills, moved_to

TrialKind = Literal["self_test", "regression", "review"]
"""In the order in which they are made: what costs nothing first."""
Condition = TrialKind | Literal["failure_modes", "uses"]
TRIALS: Final[tuple[TrialKind, ...]] = get_args(TrialKind)
SUCCESSES, MOST_FAILURES = 3, 3
"""So many uses that succeeded does a candidate need; a skill that failed more often is disabled."""
RECENT_USES: Final = 20
"""Failures are counted among so many last uses: an old and busy skill is not disabled for what is long past."""


def lacking(skill: Skill, hash: str, skills: Skills, history: History) -> dict[Condition, str]:
    """What keeps it out, and why; empty when it may be learned. `hash`: of its folder."""
    trials = trials_of(skill, history, hash)
    untried = dict.fromkeys(TRIALS, "not made yet")
    tried = untried | {each.fact.kind: "" if each.fact.passed else each.fact.words or "failed" for each in trials}
    promoted = moved_to(skill, LEARNED)
    others = (each for each in skills.found if each.folder not in (skill.folder, promoted.folder))
    after = skills._replace(found=(*others, promoted)).graph_problems()
    broken = sorted(map(str, {*after} - {*skills.graph_problems()}))
    sites = ", ".join(history.origins_of(skill.head.name)[:3])
    last = trials[0].seq if trials else history.last_seq
    good = sum(use.seq > last and bool(use.run.succeeded) for use in history.uses.get(skill.reference, ()))
    untestable = f"'## {SELF_TEST}' holds no fenced block with a command that ends with 0 when it works"
    unsafe = f"work that had read the web ({sites}) wrote it: it needs the PM's word, 'minifram skills promote'"
    unwarned = f"'## {FAILURE_MODES}' says nothing; name what can go wrong and what to do then"
    unused = f"{good} of {SUCCESSES} runs used it and succeeded since it was tried"
    rows: tuple[tuple[Condition, str], ...] = (
        ("self_test", tried["self_test"] if skill.self_test else untestable),
        ("regression", "; ".join(broken[:3]) or tried["regression"]),
        ("review", unsafe if sites else tried["review"]),
        ("failure_modes", "" if re.search(r"\w", skill.section(FAILURE_MODES)) else unwarned),
        ("uses", "" if good >= SUCCESSES else unused),
    )
    return {condition: why for condition, why in rows if why}


def trials_of(skill: Skill, history: History, hash: str) -> list[EntryTold[Trial]]:
    """Of the folder with this hash, the oldest first."""
    return [told for told in history.entries(Trial) if (told.fact.skill, told.fact.hash) == (skill.reference, hash)]


def last_move(skill: Skill, history: History) -> EntryTold[Moved] | None:
    """Into its present state or out of it."""
    moves = (told for told in history.entries(Moved) if skill.reference in (told.fact.skill, told.fact.to))
    return max(moves, key=lambda told: told.seq, default=None)


def why_disabled(skill: Skill, history: History) -> str:
    """Empty when it may go on. What was before it was moved, as to `failed/`, from where the PM took it, is past."""
    move = last_move(skill, history)
    since = move.seq if move else 0
    uses = [use for use in _told(skill, history)[-RECENT_USES:] if use.seq > since and not use.run.succeeded]
    if len(uses) <= MOST_FAILURES:
        return ""
    runs = ", ".join(f"run {use.run.name} ({use.place})" for use in uses)
    return f"it failed {len(uses)} times, more than {MOST_FAILURES}: {runs}"


def confidence(skill: Skill, history: History) -> float:
    """That the next use succeeds, by the rule of succession, of its uses as a candidate too; the PM's are trusted."""
    if skill.state == CORE:
        return 1.0
    uses = [use for state in {skill.state, CANDIDATES} for use in _told(skill._replace(state=state), history)]
    return (sum(bool(use.run.succeeded) for use in uses) + 1) / (len(uses) + 2)


def _told(skill: Skill, history: History) -> list[SkillUse]:
    """The uses that say something."""
    return [use for use in history.uses.get(skill.reference, ()) if use.run.succeeded is not None]
