"""`python -m infra.keep.examination prepare | examine | conclude`: three processes that the watcher starts, one
after the other. Only the second runs anything of the candidate's."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

import msgspec

from infra.keep.examination import examiner, plan
from infra.keep.examination.plan import ExaminationSettings, Plan
from infra.keep.verdicts import records, refs, trees, verdict
from infra.keep.verdicts.findings import ANSWER_BYTES, Findings
from infra.keep.verdicts.paths import is_setting
from infra.keep.verdicts.reach import acts_elsewhere
from infra.keep.verdicts.selection import select
from infra.shared.branches import MAIN
from infra.shared.exit_codes import Exit
from infra.shared.people import WATCHER
from infra.shared.repository.git import Git, GitError, TooMuch, resolve_commit
from infra.shared.repository.merge import MergeConflict

LOOK_SECONDS = 60.0
SETTING_BYTES = 1 << 20
"""Of one conftest or settings file; a larger one counts as one that cannot be read."""


class Impossible(Exception):
    """There is nothing that could be examined; says why."""


def main(words: list[str]) -> int:
    given = _parser().parse_args(words)
    try:
        match given.part:
            case "prepare":
                wanted = ExaminationSettings(
                    not given.unrehearsed, given.rehearsed, given.rehearsal_seconds, given.seconds
                )
                sys.stdout.buffer.write(prepare(given.remote, given.branch, given.commit, wanted, given.python))
            case "examine":
                return examiner.main(given.apart)
            case "conclude":
                conclude(given.remote, _content(given.plan), _content(given.answer), given.began, time.time())
    except (Impossible, MergeConflict) as error:
        print(error, file=sys.stderr)
        return Exit.CONFLICT
    except (GitError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return Exit.FAILURE
    return Exit.OK


def prepare(
    remote: str, branch: str, commit: str, settings: ExaminationSettings, python: str = sys.executable
) -> bytes:
    """The plan and its objects. Raises Impossible, MergeConflict, GitError."""
    git = Git(remote, WATCHER, {"GIT_DIR": remote}).within(LOOK_SECONDS)
    main = resolve_commit(git, f"refs/heads/{MAIN}")
    if main is None or resolve_commit(git, f"refs/heads/{branch}") != commit:
        raise Impossible(f"{branch} is not at {commit[:12]}")
    after = trees.merged(git, main, commit)
    key = trees.key_of(git, after)
    if settings.rehearsed and trees.key_of(git, commit) != key:  # that was another version
        settings = msgspec.structs.replace(settings, rehearsed=False)
    differ = git.raw("diff-tree", "-r", "-z", "--no-renames", "--name-only", main, after)
    changed = differ.decode(errors="surrogateescape").split("\0")
    chosen = select(trees.files_of(git, main), trees.files_of(git, after), changed)
    chosen = chosen._replace(elsewhere=_elsewhere(git, main, after, chosen.settings))
    candidate, mains = trees.snapshot(git, after), trees.snapshot(git, main)
    with_mains_tests = trees.snapshot(git, after, main)
    made = Plan(branch, commit, main, key, candidate, with_mains_tests, mains, chosen, settings, python)
    return plan.to_bytes(made, trees.pack(git, candidate, with_mains_tests, mains))


def _elsewhere(git: Git, main: str, after: str, settings: Sequence[str]) -> tuple[str, ...]:
    """Raises GitError."""

    def content(commit: str, path: str) -> bytes | None:
        entry = git.raw("ls-tree", "-z", "--full-tree", commit, "--", path)
        if not entry:
            return None
        try:
            is_file = entry.startswith(b"100")  # and no link
            return git.saying_at_most(SETTING_BYTES).raw("cat-file", "blob", f"{commit}:{path}") if is_file else b"\0"
        except TooMuch:
            return b"\0"

    found = (acts_elsewhere(path, content(main, path), content(after, path)) for path in filter(is_setting, settings))
    return tuple(filter(None, found))


def conclude(remote: str, planned: bytes, answered: bytes, began: float, now: float) -> None:
    """Keep the verdict and take the request away. Raises GitError, ValueError for a plan that is none."""
    wanted, _ = plan.from_bytes(planned)
    try:
        answer = msgspec.json.decode(answered, type=Findings)
    except ValueError:
        answer = Findings(outage="the examiner ended without an answer; the candidate may have ended it")
    git = Git(remote, WATCHER, {"GIT_DIR": remote}).within(LOOK_SECONDS)
    found = verdict.judge(wanted.key, wanted.branch, wanted.commit, wanted.main, wanted.selection, answer)
    records.keep(git, msgspec.structs.replace(found, at=now, seconds=max(0.0, now - began)))
    refs.forget_request(git, wanted.branch, wanted.commit)


def _content(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)[: ANSWER_BYTES * 8]


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="examination", description=__doc__, allow_abbrev=False)
    parts = made.add_subparsers(dest="part", required=True)
    first = parts.add_parser("prepare", allow_abbrev=False)
    for name in ("remote", "branch", "commit"):
        first.add_argument(f"--{name}", required=True)
    first.add_argument("--python", default=sys.executable)
    first.add_argument("--unrehearsed", action="store_true", help="the PM wants no rehearsals")
    first.add_argument("--rehearsed", action="store_true", help="the branch's commit has lived through one")
    first.add_argument("--rehearsal-seconds", type=float, required=True)
    first.add_argument("--seconds", type=float, required=True)
    second = parts.add_parser("examine", allow_abbrev=False)
    second.add_argument("--apart", action="store_true", help="as a user of its own, with TMPDIR for this alone")
    last = parts.add_parser("conclude", allow_abbrev=False)
    last.add_argument("--remote", required=True)
    for name in ("plan", "answer"):
        last.add_argument(f"--{name}", type=int, required=True, help="a descriptor")
    last.add_argument("--began", type=float, required=True)
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
