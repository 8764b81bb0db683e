"""What is done for each standing duty. Modules are imported when their duty is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from infra.cell.mind.duties import (
    CONTEXT_PROFILE,
    DAILY_SUMMARY,
    DEPRECATION_SCAN,
    EXPLORATION_RESET,
    HEALTH_CHECK,
    SKILL_REVIEW,
    WEEKLY_REVIEW,
    DueDuty,
)
from infra.cell.mind.mind import MindContext

DutyWork = Callable[[MindContext, DueDuty], str]
"""Gives what came of it, in a few words. Whatever it raises is a failed try."""


def _reset_exploration(context: MindContext, due: DueDuty) -> str:
    """The doors count by UTC day by themselves; here it is said what a new day may use up."""
    usd = context.exploration_usd
    return "no exploration (exploration.usd is not set)" if usd is None else f"up to {usd:g} USD"


def _scan_skills(context: MindContext, due: DueDuty) -> str:
    from infra.cell.mind.skill_scan import SkillScan

    return SkillScan(context).scan(due.period)


def _review_skills(context: MindContext, due: DueDuty) -> str:
    from infra.cell.mind.skill_care import SkillCare

    return SkillCare(context).review()


def _summarise_day(context: MindContext, due: DueDuty) -> str:
    from infra.cell.mind.learn import make_daily

    return make_daily(context, due.period)


def _review_week(context: MindContext, due: DueDuty) -> str:
    from infra.cell.mind.learn import make_weekly
    from infra.cell.mind.skill_care import SkillCare

    words = make_weekly(context, due.period)
    SkillCare(context).index_candidates()  # its drafts, while it is known that no page wrote them
    return words


def _compile_profile(context: MindContext, due: DueDuty) -> str:
    from infra.cell.mind.profile import compile_week

    return compile_week(context.places.mind, due.period)


def _check_health(context: MindContext, due: DueDuty) -> str:
    from infra.cell.mind.self_check import check_sandbox

    return check_sandbox(context)


WORKS: Final[Mapping[str, DutyWork]] = {
    EXPLORATION_RESET: _reset_exploration,
    DEPRECATION_SCAN: _scan_skills,
    SKILL_REVIEW: _review_skills,
    HEALTH_CHECK: _check_health,
    DAILY_SUMMARY: _summarise_day,
    WEEKLY_REVIEW: _review_week,
    CONTEXT_PROFILE: _compile_profile,
}
