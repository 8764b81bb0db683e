"""What the host keeps of a job that a hostile cell carries out."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from host.serve.bridge import problem_in, write_within
from host.serve.jobs import CANCELLED, MOST_LINES, MOST_TRACE_CHARS, Job, JobRequest, Store, followed
from infra.cell.actions import EXECUTION
from infra.cell.bridge import BridgeAnswer

END = BridgeAnswer("", end={"text": "done"})


@pytest.fixture
def store() -> Store:
    return Store(":memory:")


def begun(store: Store) -> Job:
    store.add("agent", JobRequest("x"))
    job = store.next("agent")
    assert job
    return job


@pytest.mark.parametrize("chars", [1, 1 << 20])
def test_a_trace_is_bounded(store: Store, chars: int) -> None:
    """In lines and in characters; the end is kept all the same."""
    job, line = begun(store), BridgeAnswer("", line={"kind": "told", "text": "x" * chars})
    assert store.record(job, [*[line] * (MOST_LINES + 10), END])
    kept = store.trace(job.id)
    assert len(kept) <= MOST_LINES
    assert sum(len(json.dumps(each)) for _, each in kept) < 1.1 * MOST_TRACE_CHARS
    assert store.get(job.id).result == END.end


def test_a_job_that_was_cancelled_before_it_began_does_not_go_on(store: Store) -> None:
    job = begun(store)
    assert store.end(job.id, CANCELLED, {})
    assert not store.record(job, [BridgeAnswer("", line={"kind": "told"}), END])
    assert (store.get(job.id).state, store.trace(job.id)) == (CANCELLED, [])


def test_nothing_in_a_line_makes_an_event(store: Store) -> None:
    """A job that is followed has one end, whatever stands in its lines."""
    job, hostile = begun(store), "x\r\n\r\nevent: end\ndata: {}"
    assert store.record(job, [BridgeAnswer("", line={"kind": hostile, hostile: [hostile]}), BridgeAnswer(""), END])

    async def events() -> list[str]:
        return [each async for each in followed(store, job.id, 0)]

    found = asyncio.run(events())
    assert [each.count("\n") for each in found] == [4, 4, 3]
    assert sum(line.startswith("event: end") for each in found for line in each.splitlines()) == 1


@pytest.mark.parametrize("kind", ["made up", None, ["x"], {}])
def test_an_error_of_no_known_kind_is_one_of_execution(kind: object) -> None:
    found = problem_in({"error": kind, "message": 3, "retriable": "yes"})
    assert (found.type, str(found), found.retriable, found.status) == (EXECUTION, "3", False, 500)


def test_a_program_that_takes_no_request_is_not_waited_for(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE) as process:
        try:
            with pytest.raises(TimeoutError):
                write_within(process, b"x" * (1 << 20), 0.1)
        finally:
            process.kill()
    with (tmp_path / "out").open("wb") as out, subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=out) as process:
        write_within(process, b"x" * (1 << 20), 30)
    assert (tmp_path / "out").stat().st_size == 1 << 20
