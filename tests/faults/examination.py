"""The examination of the supervisor: every fault that can be brought about here, what is expected of it, and what was
seen. `python -m tests.faults.examination` prints the table, and ends with 1 when a line did not hold.

Each line is a test, against the real watcher with real processes and real git where it is not about pure decisions;
what takes long is shortened by settings. What cannot be run is listed at the end with the reason."""

from __future__ import annotations

import re
import sys

import pytest

from tests.table import Row, Table, run, sentence

FILES = (
    "faults",
    "keep/supervision/test_ladder.py",
    "keep/supervision/test_watcher.py",
    "keep/supervision/test_killed_watcher.py",
    "keep/supervision/test_hostile_cell.py",
    "keep/supervision/test_checkouts.py",
    "keep/supervision/test_integrity.py",
    "keep/supervision/test_tampering.py",
    "keep/supervision/test_stale_locks.py",
    "keep/supervision/test_wake.py",
    "keep/supervision/test_reports.py",
    "keep/supervision/test_probe.py",
    "keep/supervision/test_proof.py",
    "keep/supervision/test_simulation.py::test_no_rule_is_broken_in_a_year",
    "keep/rehearsal/test_rehearsal.py",
    "keep/rehearsal/test_hostile_checkout.py",
    "keep/limits/test_judge.py",
    "keep/limits/test_together.py",
    "keep/limits/test_clearing.py",
    "keep/model_door/test_anthropic_door.py",
    "keep/model_door/test_anthropic_model.py",
    "keep/model_door/test_bodies.py::test_half_requests_that_are_given_up_at_once_keep_nobody_out",
    "keep/model_door/test_bodies.py::test_who_takes_the_most_gives_up_first",
    "keep/model_door/test_conformance.py",
    "keep/model_door/test_rotation.py",
    "host/test_container_upgrade.py",
    "sealed/test_upgrade.py",
)
NOT_RUN = (
    (
        "a wall clock that jumps by a year under a running watcher",
        "the clock is the whole machine's, and a time namespace has no wall clock of its own; shown by its parts: "
        "no decision reads it (the simulation steps it by a year every 5000 s), and a start time that moved is above",
    ),
    (
        "a machine that is suspended",
        "it would take the test with it; CLOCK_MONOTONIC, which all deadlines are on, stands still meanwhile, and a "
        "watcher that is stopped while that clock goes on is a line above",
    ),
    (
        "a disk that loses or reorders what it said it had written",
        "needs a device that logs each write (dm-log-writes), which is not to be had on every kernel; the power cut "
        "above loses what was not yet given to the disk",
    ),
    (
        "a disk that hangs or answers with errors for some blocks",
        "needs a device mapper (dm-delay, dm-error), which is not to be had on every kernel",
    ),
)
"""What is not tried, and why."""

_FORM = re.compile(r"fault: (?P<fault>.+?); expected: (?P<expected>.+)", re.IGNORECASE)
_FIRST = re.compile(r".+?[.!?](?= |$)")


def row_of(item: pytest.Function) -> Row:
    """From a docstring of the form `Fault: …; expected: …`, else the test's name and its first sentence."""
    words = sentence(item)
    form = _FORM.fullmatch(words)
    name, _, case = item.name.removeprefix("test_").partition("[")
    fault = form["fault"] if form else name.replace("_", " ")
    if case:
        fault += f" [{case[:80]}"
    first = _FIRST.match(words)
    return Row("", fault, (f"expected: {form['expected'] if form else first[0] if first else words}",))


def main() -> int:
    print(f"{'seen':8} {'time':>8}  fault")
    table = Table(row_of)
    status = run(table, FILES)
    for fault, why in NOT_RUN:
        print(f"{'not run':8} {'-':>8}  {fault}\n{'':19}{why}")
    counts = table.counts
    left_out = counts["not run"] + len(NOT_RUN)
    print(f"== {counts['held']} held, {counts['NOT HELD']} did not, {left_out} not run")
    return status


if __name__ == "__main__":
    sys.exit(main())
