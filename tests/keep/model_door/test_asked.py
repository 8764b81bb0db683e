"""What one unit of work is: all that is done while the same directives are open on main."""

from __future__ import annotations

import pytest

from infra.keep.model_door.asked import UNKNOWN, unit_of, unit_on_main

PAGE = "# COMMS\n\n## Directives\n\n- [ ] build it\n- [x] plan it\n\n## Reports\n"


@pytest.mark.parametrize(
    ("same", "old", "new"),
    [
        (True, "## Reports\n", "## Reports\n\n### main@0123456789ab: half of it\n\nnews\n"),
        (True, "- [x] plan it\n", ""),
        (True, "- [x] plan it\n", "- [ ] approve 0123456789abcdef\n- [x] deny 0123456789abcdef: no\n- [x] plan it\n"),
        (True, "- [ ] build it\n- [x] plan it", "- [x] plan it\n- [ ] build it"),
        (False, "- [ ] build it", "- [x] build it"),
        (False, "- [ ] build it", "- [ ] build it\n- [ ] and test it"),
        (False, "- [ ] build it\n", "- [x] build it\n- [ ] build it\n"),
        (False, "build it", "build them"),
        (False, "- [ ] build it\n", "- [ ] build it\n- [ ] approve the plan in PLAN.md\n"),
        (False, "- [ ] build it\n", "- [ ] build it\n- [ ] Deny guests the uploads, and test it\n"),
    ],
)
def test_only_what_is_asked_for_makes_a_unit(same: bool, old: str, new: str) -> None:
    """Reports, answers to questions and pruning of what is done are no new work; ticks and new words are."""
    assert old in PAGE
    assert (unit_of(PAGE.replace(old, new)) == unit_of(PAGE)) is same


def test_a_page_that_is_none_has_a_unit_as_well() -> None:
    """Whatever is wrong with it, nobody gets another sum by it."""
    assert unit_of("") == unit_of("no page") == unit_of("## Directives\n\n## Reports\n")
    assert unit_on_main("/nonexistent/remote.git")() == UNKNOWN
