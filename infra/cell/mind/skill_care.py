"""What becomes of the skills: after each run, each day and each week.

After a run what was changed is a candidate, and what failed too often is disabled. Each day code drafts what runs
repeated, tries what the gate lacks and promotes what passes it. Each week what nobody used is deprecated."""

from __future__ import annotations

import os
from typing import Final

from infra.cell.doors import ModelFailure
from infra.cell.mind.history import Drafted, DutyStep, History, Moved, history_of
from infra.cell.mind.memory import tell_of
from infra.cell.mind.mind import UNKNOWN_ORIGIN, MindContext, is_tainted
from infra.cell.mind.record import tell
from infra.cell.mind.skill_drafts import drafts
from infra.cell.mind.skill_gate import (
    TRIALS,
    confidence,
    known_hash,
    lacking,
    last_move,
    trials_of,
    why_disabled,
)
from infra.cell.mind.skill_trials import SkillTrials
from infra.cell.mind.skills import (
    CANDIDATES,
    DEPRECATED,
    FAILED,
    FILE,
    LEARNED,
    SKILLS,
    STATES,
    USED,
    Skill,
    Skills,
    files_of,
    folder_hash,
    index_of,
    met_by,
    move,
    read_skills,
)
from infra.shared.branches import MIND
from infra.shared.clock import moment, timestamp
from infra.shared.mind.layout import FAILURES, IMPROVEMENTS, SKILLS_INDEX
from infra.shared.people import AGENT
from infra.shared.redacted_file import RedactedFile
from infra.shared.repository.git import GitError
from infra.shared.safe_files import Below

DEPRECATION_SCAN: Final = "deprecation_scan"
"""The duty that does the weekly part."""
PUSHED: Final = f"refs/remotes/origin/{MIND}"
MOST_PENDING, DRAFTED_DAYS = 20, 14
"""Candidates at which no draft is added, and days of events that are looked at."""


class SkillCare:
    """The skills of one mind. All methods raise OSError."""

    def __init__(self, context: MindContext) -> None:
        self._context, self._root = context, context.places.mind

    def after_run(self) -> None:
        skills = read_skills(self._root)
        for problem in (*skills.problems, *skills.graph_problems()):
            self._context.note("mind.skill_problem", problem=str(problem))
        for problem in skills.problems:
            state, name = problem.path.split("/")[1:3]
            if state == LEARNED:  # what is no skill would be placed all the same
                Below(self._root).remove(f"{SKILLS}/{CANDIDATES}/{name}")
                os.renames(f"{self._root}/{SKILLS}/{LEARNED}/{name}", f"{self._root}/{SKILLS}/{CANDIDATES}/{name}")
                self._put_back(name)
        for skill in skills.of(LEARNED):
            if not self._is_let_through(skill):
                self._move(skill, CANDIDATES, "a learned skill has to pass the gate, and so has a change of one")
                self._put_back(skill.head.name)
        self._disable()
        self.tell_candidates()

    def daily(self) -> str:
        """What came of it, in words."""
        self._disable()
        words = [f"drafted {name}" for name in self._draft()]
        skills, is_tried = read_skills(self._root), False
        candidates = skills.of(CANDIDATES)
        first = int(self._context.now() // 86_400.0) % max(1, len(candidates))
        for skill in (*candidates[first:], *candidates[:first]):  # what is put off each day holds up no other
            hash = self._hash(skill)
            is_tried = is_tried or self._try(skill, hash, skills)
            lacks = lacking(skill, hash, skills, self._history(), self._context.thresholds)
            words.append(f"{skill.reference} lacks {', '.join(lacks)}" if lacks else f"promoted {skill.reference}")
            if not lacks:
                self._promote(skill, hash)
        self.write_index()
        return "; ".join(words) or "no candidates"

    def weekly(self) -> str:
        """Learned skills that so many weekly reviews did not see used, and that no other needs, are deprecated."""
        skills, history, gone = read_skills(self._root), self._history(), list[str]()
        scans = [
            at for step, _, at, _ in history.entries(DutyStep) if (step.name, step.state) == (DEPRECATION_SCAN, "done")
        ]
        needed = [met_by(each, skills.found) for skill in skills.of(*USED) for each in skill.head.dependencies]
        for skill in skills.of(LEARNED):
            learned = last_move(skill, history)
            used = [use.at for use in history.uses.get(skill.reference, ())]
            unused = sum(at > max([learned[0].at, *used]) for at in scans) + 1 if learned else 0
            if skill not in needed and unused >= self._context.thresholds.unused_reviews:
                self._move(skill, DEPRECATED, f"unused for {unused} weekly reviews")
                gone.append(skill.reference)
        self.write_index()
        return f"{len(skills.of(LEARNED))} learned skills" + (f", deprecated {', '.join(gone)}" if gone else "")

    def tell_candidates(self) -> None:
        """Who wrote each candidate that is new or changed, while it is known; and the index."""
        history = self._history()
        for skill in read_skills(self._root).of(CANDIDATES):
            hash = self._hash(skill)
            if hash in ("", known_hash(skill, history)):
                continue
            origins = self._context.origins()[:20]
            if not origins and self._pushed(skill)[0] == AGENT.email and not self._is_changed(skill):
                origins = (UNKNOWN_ORIGIN,)  # no run told of it: it came by another clone
            tell(self._context, Drafted(skill.head.name, hash, origins), words=f"{skill.reference} was drafted")
        self.write_index()

    def write_index(self) -> None:
        """A tainted agent cannot push it: it is written later."""
        if not is_tainted(self._context):
            history = self._history()
            text = index_of(read_skills(self._root), lambda skill: confidence(skill, history))
            RedactedFile(f"{self._root}/{SKILLS_INDEX}").replace(text)

    def _history(self) -> History:
        return history_of(self._context.places.events)

    # A learned skill is what the gate or the PM let through

    def _put_back(self, name: str) -> None:
        """The one before; any other content is a candidate."""
        folder = f"{SKILLS}/{LEARNED}/{name}"
        try:
            self._context.git("checkout", "--quiet", PUSHED, "--", folder)
        except GitError:  # it is new
            return
        old = read_skills(self._root).find(name, LEARNED)
        if not old or not self._is_let_through(old):
            self._context.git("rm", "-r", "--quiet", "--force", "--", folder)  # somebody committed the change

    def _hash(self, skill: Skill) -> str:
        """Of its folder; empty for one that cannot be read, or is too large: it is neither tried nor learned."""
        try:
            return folder_hash(files_of(self._root, skill))
        except OSError as error:
            self._context.note("mind.skill_problem", problem=str(error))
            return ""

    def _is_let_through(self, skill: Skill) -> bool:
        """By the last word on it: a commit of the PM's, or an event of the gate."""
        last = last_move(skill, self._history(), into=False)
        is_told = last is not None and (last[1].to, last[1].hash or "-") == (skill.reference, self._hash(skill))
        by, at = self._pushed(skill)
        if by not in ("", AGENT.email) and (last is None or at > moment(last[0].at)):
            is_the_pms = not self._is_changed(skill)
            if is_the_pms and not is_told:  # once: what came before it does not count against the skill
                tell(self._context, Moved(skill.reference, skill.reference, self._hash(skill), "the PM's word"))
            return is_the_pms
        return is_told

    def _pushed(self, skill: Skill) -> tuple[str, float]:
        """Whose last commit on the branch touched the folder, and when: the git door takes no other committer from the
        agent, while an author is what it likes. Empty for what the branch never had."""
        try:
            by, _, at = self._context.git("log", "-1", "--format=%ce %ct", PUSHED, "--", skill.folder).partition(" ")
        except GitError:
            return "", 0.0
        return by, float(at or 0)

    def _is_changed(self, skill: Skill) -> bool:
        """Other than the branch has it."""
        git, place = self._context.git, ("--", skill.folder)
        return bool(git("status", "--porcelain", *place) or git("diff", "--name-only", PUSHED, *place))

    # From state to state

    def _move(self, skill: Skill, state: str, why: str, hash: str = "", successor: str = "") -> None:
        moved = move(self._root, skill, state, successor)
        tell(self._context, Moved(skill.reference, moved.reference, hash, why), words=why)
        self._context.note("mind.skill_moved", skill=skill.reference, to=moved.reference, why=why)

    def _promote(self, skill: Skill, hash: str) -> None:
        if old := read_skills(self._root).find(skill.head.name, LEARNED):
            successor = f"{LEARNED}/{skill.head.name}@{skill.head.version}"
            self._move(old, DEPRECATED, f"replaced by {successor}", successor=successor)
        self._move(skill, LEARNED, "it passed the gate", hash)

    def _disable(self) -> None:
        history = self._history()
        for skill in read_skills(self._root).of(LEARNED, CANDIDATES):
            if why := why_disabled(skill, history, self._context.thresholds):
                self._move(skill, FAILED, why)
                text = f"{timestamp(self._context.now())}: {why}.\n\nDraft it anew, with a higher version."
                tell_of(self._root, FAILURES, f"Skill {skill.reference} disabled", text)

    # Each day

    def _draft(self) -> list[str]:
        """Candidates for what runs repeated with success, if no skill was ever made of it."""
        since = timestamp(self._context.now() - DRAFTED_DAYS * 86_400.0)
        below, left = Below(self._root), MOST_PENDING - len(read_skills(self._root).of(CANDIDATES))
        found = drafts(self._history(), since, self._context.thresholds.skill_successes)
        new = [name for name in found if not any(below.status(f"{SKILLS}/{state}/{name}") for state in STATES)]
        del new[max(0, left) :]
        for name in new:
            below.make_directory(f"{SKILLS}/{CANDIDATES}")
            below.make_directory(f"{SKILLS}/{CANDIDATES}/{name}")
            RedactedFile(f"{self._root}/{SKILLS}/{CANDIDATES}/{name}/{FILE}").replace(found[name])
            text = f"{name} is a draft of what runs repeated with success; it has no self-test yet."
            tell_of(self._root, IMPROVEMENTS, f"Skill {name} drafted", text)
        self.tell_candidates()
        return new

    def _try(self, skill: Skill, hash: str, skills: Skills) -> bool:
        """The trials that it lacks and that were not made of it as it is, until one fails. Whether any was: a day has
        one candidate, so that the model is asked once. A page's commands are not run."""
        history, is_tried = self._history(), False
        lacks = lacking(skill, hash, skills, history, self._context.thresholds)
        may_pass = skill.self_test and "failure_modes" not in lacks and not history.origins_of(skill.head.name)
        if self._context.toolbox_in is None or not hash or not may_pass:
            return False
        known = {trial.kind for _, trial in trials_of(skill, history, hash)}
        for kind in (kind for kind in TRIALS if kind in lacks):
            if kind in known:
                break
            self._context.interruption.check()
            is_tried = True
            try:
                trial = SkillTrials(self._context, skill, hash, skills).make(kind)
            except (ModelFailure, ValueError) as later:
                self._context.note("mind.skill_trial_put_off", skill=skill.reference, why=str(later))
                break
            tell(self._context, trial, words=trial.words)
            self._context.note("mind.skill_tried", skill=skill.reference, trial=kind, passed=trial.passed)
            if not trial.passed:
                break
        return is_tried
