"""What becomes of the skills after each run, and once a day.

After a run: a candidate that was written stands in the index, a learned skill that was changed is a candidate again,
and one that failed too often is disabled. Each day: what the gate lacks is tried, and what passes it is promoted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from infra.cell.doors import ModelFailure
from infra.cell.mind.mind import UNKNOWN_ORIGIN, MindContext
from infra.cell.mind.procedures import draft, procedures
from infra.cell.mind.reflections import tell_failure, tell_improvement
from infra.cell.mind.skill_files import SkillFiles
from infra.cell.mind.skill_gate import Gate, gate, is_to_be_disabled
from infra.cell.mind.skill_graph import graph_problems
from infra.cell.mind.skill_index import IndexLine, index_line, with_line
from infra.cell.mind.skill_index import lines_of as index_lines
from infra.cell.mind.skill_log import SkillLog
from infra.cell.mind.skill_moves import move_of
from infra.cell.mind.skill_record import (
    COMPARISON,
    REGRESSION,
    REVIEW,
    SELF_TEST,
    DraftDetails,
    outcome_of,
    used_in,
)
from infra.cell.mind.skill_tally import is_next_with_skill, tally_of, verdict
from infra.cell.mind.skill_trials import SkillTrials, TrialPutOff
from infra.cell.mind.skills import HELD_OUT, STATUS_OF, Skill, Skills, SkillStatus, folder_hash
from infra.cell.mind.skills import SELF_TEST as SELF_TEST_SECTION
from infra.shared.branches import MIND
from infra.shared.clock import timestamp
from infra.shared.mind.layout import LEARNED, SKILLS_INDEX
from infra.shared.people import AGENT
from infra.shared.repository.git import GitError

PUSHED: Final = f"refs/remotes/origin/{MIND}"
MOST_REVIEWED: Final = 3
"""Candidates in one day that something is tried of."""
COMPARES_SECONDS: Final = 540.0
"""Of a review, after which no trial of the held-out task begins: the last one ends within a duty's time."""
MOST_DRAFTS, MOST_PENDING, DRAFTED_DAYS = 2, 20, 14
"""Drafts in one day, candidates at which none is added, and days of events that are looked at."""


class SkillCare:
    """The skills of one mind."""

    def __init__(self, context: MindContext) -> None:
        self._context = context
        self._root = context.places.mind
        self._files = SkillFiles(self._root)
        self._log = SkillLog(context)
        self.compares_until = time.monotonic() + COMPARES_SECONDS
        """No trial of a held-out task begins later."""

    # After a run

    def after_run(self, run: str) -> None:
        """Raises OSError."""
        skills = self._files.skills()
        for problem in (*skills.problems, *graph_problems(skills)):
            self._context.note("mind.skill_problem", problem=str(problem))
        for skill in skills.found:
            if skill.status is SkillStatus.LEARNED:
                self._put_back_changed(skill)
        self.index_candidates()
        used, failed = self._of_run(run)
        if used and failed:
            self._disable(self._files.skills(), used)

    def _put_back_changed(self, skill: Skill) -> None:
        """A learned skill is what the gate let through: any other content is a candidate, and the one before stays."""
        promoted = self._promoted_hash(skill.name)
        found = folder_hash(self._files.folder(skill))
        if found == promoted:
            return
        if self._is_the_pms(skill):
            index = with_line(self._files.index(), IndexLine.of(skill, 0.5, found))
            self._files.write_index(index)
            self._log.moved(skill, skill, found, "the PM changed it")
            return
        why = "a change of a learned skill has to pass the gate" if promoted else "it has not passed the gate"
        move = move_of(skill, SkillStatus.CANDIDATE, self._files.index(), hash=found)
        self._files.move(move)
        self._log.moved(skill, move.skill, found, why)
        if promoted:
            self._restore(skill, promoted)

    def _promoted_hash(self, name: str) -> str:
        """By the index as it was pushed: what a run wrote or committed there since does not count."""
        try:
            text = self._context.git("show", f"{PUSHED}:{SKILLS_INDEX}")
        except GitError:
            return ""
        found = (index_line(line) for line in text.split("\n"))
        return next((line.hash for line in found if line and (line.directory, line.name) == ("learned", name)), "")

    def _is_the_pms(self, skill: Skill) -> bool:
        """It is as the branch has it, and not by the agent."""
        return self._pushed_by(skill) not in ("", AGENT.email)

    def _pushed_by(self, skill: Skill) -> str:
        """Whose commit on the branch the folder is; the git door takes no other committer from the agent, while an
        author is what it likes. Empty for what is not as the branch has it."""
        git, place = self._context.git, ("--", skill.folder)
        try:
            if git("status", "--porcelain", *place) or git("diff", "--name-only", PUSHED, *place):
                return ""
            return git("log", "-1", "--format=%ce", PUSHED, *place)
        except GitError:
            return ""

    def _restore(self, skill: Skill, promoted: str) -> None:
        """The content that was promoted, out of the history."""
        try:
            self._context.git("checkout", "--quiet", PUSHED, "--", skill.folder)
        except GitError as error:
            self._context.note("mind.skill_not_restored", skill=skill.reference, error=str(error))
            return
        old = self._files.skills().find(skill.name, SkillStatus.LEARNED)
        if old and folder_hash(self._files.folder(old)) == promoted:
            index = with_line(self._files.index(), IndexLine.of(old, 0.5, promoted))
            self._files.write_index(index)
        else:  # somebody committed the change: only the history before knows it
            self._context.git("rm", "-r", "--quiet", "--force", "--", skill.folder)

    def index_candidates(self) -> None:
        """Each candidate in the index, with the hash of its folder; where that is another, it was changed."""
        index = text = self._files.index()
        known = {(line.directory, line.name): line for line in index_lines(index)}
        for skill in self._files.skills().found:
            if skill.status is not SkillStatus.CANDIDATE:
                continue
            try:
                hash = folder_hash(self._files.folder(skill))
            except OSError as error:
                self._context.note("mind.skill_problem", problem=str(error))
                continue
            line = known.get((skill.status.directory, skill.name))
            if line and (line.hash, line.version) == (hash, str(skill.version)):
                continue
            index = with_line(index, IndexLine.of(skill, line.confidence if line else 0.5, hash))
            origins = self._context.origins()[:20]
            if not origins and self._pushed_by(skill) == AGENT.email:
                origins = (UNKNOWN_ORIGIN,)  # no run told of it: it came by another clone
            self._log.drafted(skill, DraftDetails(skill.name, hash, origins))
        if index != text:
            self._files.write_index(index)

    def _of_run(self, run: str) -> tuple[set[str], bool]:
        """The skills that a run used, and whether it failed."""
        used, failed = set[str](), False
        yesterday = timestamp(self._context.now() - 86_400.0)[:10]
        for line in self._log.events(yesterday):
            event = line.event
            if event is None or event.run_id != run:
                continue
            if reference := used_in(event):
                used.add(reference)
            if event.event_type == "task_update":
                failed = outcome_of(event.metadata.status) is False
        return used, failed

    def _disable(self, skills: Skills, used: set[str] | None = None) -> int:
        """Those that failed too often; of `used` alone, if given. Gives how many."""
        records, disabled = self._log.records(), 0
        for skill in skills.found:
            if used is not None and skill.reference not in used:
                continue
            record = records.of(skill.reference)
            why = is_to_be_disabled(skill, record, self._context.thresholds)
            if not why:
                continue
            move = move_of(skill, SkillStatus.FAILED, self._files.index())
            self._files.move(move)
            self._log.moved(skill, move.skill, "", why)
            tell_failure(
                self._root,
                f"Skill {skill.reference} disabled",
                f"{timestamp(self._context.now())}: {why}.\n\nIt is in {move.target}. Draft it anew, with a higher "
                "version, once it is clear why it failed.",
            )
            disabled += 1
        return disabled

    # Each day

    def review(self) -> str:
        """Try what the gate lacks, promote what passes it. Raises OSError, GitError, Interrupted."""
        disabled = self._disable(self._files.skills())
        drafted = self._draft(self._files.skills())
        skills = self._files.skills()
        folders = {skill.folder: self._files.folder(skill) for skill in skills.found if skill.status in _TRIED}
        promoted, waits = list[str](), list[str]()
        candidates = [skill for skill in skills.found if skill.status is SkillStatus.CANDIDATE]
        first = int(self._context.now() // 86_400.0) * MOST_REVIEWED % max(1, len(candidates))
        left = MOST_REVIEWED
        for skill in (*candidates[first:], *candidates[:first]):  # what is put off each day holds up no other
            hash = folder_hash(folders[skill.folder])
            found, was_tried = self._tried(skill, hash, skills, folders, left > 0)
            left -= was_tried
            if found.passed and folder_hash(self._files.folder(skill)) != hash:
                waits.append(f"{skill.reference} was changed under its trials")
            elif found.passed:
                self._promote(skill, hash)
                promoted.append(skill.reference)
            else:
                waits.append(f"{skill.reference} lacks {', '.join(each.name for each in found.lacking)}")
        words = [f"{disabled} disabled"] if disabled else []
        words += [f"drafted {', '.join(drafted)}"] if drafted else []
        words += [f"promoted {', '.join(promoted)}"] if promoted else []
        return "; ".join([*words, *waits]) or "no candidates"

    def _draft(self, skills: Skills) -> list[str]:
        """A candidate for each procedure that runs repeated with success, if no skill was ever made of it."""
        if sum(skill.status is SkillStatus.CANDIDATE for skill in skills.found) >= MOST_PENDING:
            return []
        since = timestamp(self._context.now() - DRAFTED_DAYS * 86_400.0)[:10]
        events = ((line.place, line.event) for line in self._log.events(since) if line.event)
        found = procedures(events, self._context.thresholds.skill_successes)
        taken = {name for state in STATUS_OF for name in self._files.names(state)}
        names = [each for each in found if each.name not in taken][:MOST_DRAFTS]
        for each in names:
            self._files.create(each.name, draft(each))
            text = f"{len(each.runs)} runs did the same with success; {each.name} is a draft of it without a self-test."
            tell_improvement(self._root, f"Skill {each.name} drafted", text)
        if names:
            self.index_candidates()
        return [each.name for each in names]

    def judged(self, skill: Skill, hash: str, skills: Skills) -> Gate:
        record = self._log.records().of(skill.reference)
        explores = self._context.exploration_usd is not None
        return gate(skill, hash, record, self._files.index(), skills, self._context.thresholds, explores)

    def _tried(
        self, skill: Skill, hash: str, skills: Skills, folders: Mapping[str, Mapping[str, bytes]], may_try: bool
    ) -> tuple[Gate, bool]:
        """What costs nothing first; the model is asked only about what may still pass. Whether anything was tried."""
        if self._log.records().of(skill.reference).origins:  # a page's commands are not run
            return self.judged(skill, hash, skills), False
        trials = SkillTrials(self._context, skill, hash, skills, folders)
        tries = {
            SELF_TEST: (trials.self_test, "self-test", ()),
            REGRESSION: (trials.regression, "regression check", ("self-test",)),
            REVIEW: (trials.review, "peer review", ("self-test", "regression check", "failure modes")),
        }
        found, was_tried = self.judged(skill, hash, skills), False
        for kind, (make, name, first) in tries.items() if may_try and self._context.toolbox_in else ():
            lacking = {condition.name for condition in found.lacking}
            if name not in lacking or lacking.intersection(first) or not _can_be_made(kind, skill, found):
                continue
            if self._log.records().of(skill.reference).last(kind, hash):
                continue
            self._context.interruption.check()
            was_tried = True
            try:
                self._log.tried(kind, make())
            except (TrialPutOff, ModelFailure, ValueError) as later:  # or an answer that is none
                self._put_off(skill, str(later))
            found = self.judged(skill, hash, skills)
        if may_try and self._context.toolbox_in and _can_be_compared(skill, found):
            was_tried = self._compare(skill, hash, trials) or was_tried
            found = self.judged(skill, hash, skills)
        return found, was_tried

    def _compare(self, skill: Skill, hash: str, trials: SkillTrials) -> bool:
        """The held-out task with the skill and without, by turns, until that decides; what is left waits for the next
        review, and nothing is made twice. Whether anything was tried."""
        was_tried, most = False, self._context.thresholds.skill_trials
        while verdict(tally := tally_of(self._log.records().of(skill.reference), hash), most) is None:
            self._context.interruption.check()
            was_tried = True
            try:
                if time.monotonic() > self.compares_until:
                    raise TrialPutOff("this review has taken its time; the rest of the trials are made in the next")
                self._log.tried(COMPARISON, trials.held_out(is_next_with_skill(tally)))
            except (TrialPutOff, ModelFailure, ValueError) as later:
                self._put_off(skill, str(later))
                break
        return was_tried

    def _put_off(self, skill: Skill, why: str) -> None:
        self._context.note("mind.skill_trial_put_off", skill=skill.reference, why=why)

    def _promote(self, skill: Skill, hash: str) -> None:
        old = self._files.skills().find(skill.name, SkillStatus.LEARNED)
        if old:
            successor = f"{LEARNED.partition('/')[2]}/{skill.name}@{skill.version}"
            away = move_of(old, SkillStatus.DEPRECATED, self._files.index(), successor=successor)
            self._files.move(away)
            self._log.moved(old, away.skill, "", f"replaced by {successor}")
        confidence = self._log.records().of(skill.reference).confidence
        move = move_of(skill, SkillStatus.LEARNED, self._files.index(), confidence, hash)
        self._files.move(move)
        self._log.moved(skill, move.skill, hash, "it passed the gate")


_TRIED: Final = (SkillStatus.CORE, SkillStatus.LEARNED, SkillStatus.CANDIDATE)


def _can_be_made(kind: str, skill: Skill, found: Gate) -> bool:
    """Not for what the skill itself or the settings lack."""
    if kind == SELF_TEST:
        return bool(skill.command(SELF_TEST_SECTION))
    waits = any("exploration.usd" in condition.why for condition in found.lacking)
    if kind == REVIEW:  # which would cost money for nothing
        return not waits
    return True


def _can_be_compared(skill: Skill, found: Gate) -> bool:
    """When that alone is lacking, and may be tried: it costs the most."""
    names = [condition.name for condition in found.lacking]
    waits = any("exploration.usd" in condition.why for condition in found.lacking)
    return names == ["with and without"] and bool(skill.command(HELD_OUT) and skill.prose(HELD_OUT)) and not waits
