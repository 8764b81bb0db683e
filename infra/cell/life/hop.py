"""A hop, on the branch: this version has itself examined by the keep, merges into main if it may, and hands over to
main (`SPEC_BOOT`). It always ends with main active again, and with a report."""

from __future__ import annotations

from infra.cell import report_titles
from infra.cell.cell import TENDING_SECONDS, Cell
from infra.cell.clone_tip import CloneTip, refused, retried, words_of
from infra.cell.life import examination
from infra.cell.life.examination import Examine
from infra.cell.life.make_way import signal_main
from infra.cell.status import VALIDATING
from infra.shared.branches import MAIN, version
from infra.shared.exit_codes import Exit
from infra.shared.repository.changes import changes_beyond_page
from infra.shared.repository.git import GitError
from infra.shared.repository.merge import MergeConflict, merge_commit
from infra.shared.repository.tip import advance
from infra.shared.requests import Examination

ROUNDS = 3
"""Main may move while a version is examined; then what would be merged was never examined."""


class NotValidated(Exception):
    """This version may not lead main; carries what the report shows of the reason."""

    def __init__(self, why: str, text: str) -> None:
        super().__init__(why)
        self.why = why
        self.text = text


class MainMoved(Exception):
    """Main has changes that were not there when this version was examined."""


def prove_and_hand_over(context: Cell) -> Exit:
    """Raises Interrupted, and nothing else: the signal to main is written in every other case."""
    branch = context.boot.branch
    context.status.show(VALIDATING, about=branch)
    context.heartbeat.beat("validating", TENDING_SECONDS)
    try:
        title, text = prove(context)
    except NotValidated as problem:
        title, text = report_titles.not_validated(branch, context.head_or_boot(), problem.why), problem.text
    except Exception as error:
        context.log.exception("hop.crashed")
        why = f"{type(error).__name__} in the runner"
        title, text = (
            report_titles.not_validated(branch, context.head_or_boot(), why),
            f"{error}\n\nSee logs/errors.log.",
        )
    context.log.info("hop.judged", verdict=title)
    context.heartbeat.beat("reporting", TENDING_SECONDS)
    try:
        context.page.report(title, text)
    except Exception:
        context.log.exception("hop.not_reported", title=title, text=text)
    return Exit.OK if signal_main(context, "the hop is over") else Exit.FAILURE


def prove(context: Cell, examine: Examine | None = None) -> tuple[str, str]:
    """Have this version examined and merge it if that is allowed; gives the report. Raises NotValidated."""
    for _ in range(ROUNDS):
        main = bring_in_main(context)
        head = context.head()
        if context.git.ok("merge-base", "--is-ancestor", head, main):
            title = report_titles.validated(context.boot.branch, head, "main already holds it")
            return title, "There is nothing to merge, and so nothing to examine."
        examined = examination.wait(context, head, examine or context.keep.examine)
        context.heartbeat.beat("validating", TENDING_SECONDS)
        if not examined.passed:
            raise NotValidated(examined.words, f"{examined.words}\n\n{indented(examined.text)}")
        try:
            return settle(context, examined, main)
        except MainMoved:
            context.log.info("hop.main_moved", examined_with=main)
    raise NotValidated("main kept moving", f"Main changed during each of {ROUNDS} examinations; bootstrap again later.")


def bring_in_main(context: Cell) -> str:
    """Merge main into this branch and push it, if main has what the branch lacks; gives the commit of main.

    Raises NotValidated."""
    git, branch = context.git, context.boot.branch
    current = git("rev-parse", "--abbrev-ref", "HEAD")
    dirty = git("status", "--porcelain").splitlines()
    if current != branch or dirty:
        what = f"the checkout is on {current}" if current != branch else f"{len(dirty)} files are not committed"
        raise NotValidated(what, f"{what}; commit and push to {branch}, then bootstrap it again.")
    head = context.head()
    main = retried(CloneTip(git).look)
    if not _lacks(context, head, main):
        return main
    try:
        merged = merge_commit(git, head, main, f"Merge main into {branch}\n", pages_of=main)
    except MergeConflict as conflict:
        raise NotValidated(f"conflict with main in {', '.join(conflict.files)}", str(conflict)) from None
    if merged is None:
        return main
    _push_branch(context, head, merged)
    git("merge", "--quiet", "--ff-only", merged)
    context.log.info("hop.main_merged_in", head=merged, main=main)
    return main


def settle(context: Cell, examined: Examination, main: str) -> tuple[str, str]:
    """Merge what was examined together with `main`, or leave it to the PM; gives the report. Raises MainMoved."""
    branch, head, autonomy = context.boot.branch, context.head(), context.boot.autonomy
    validated = report_titles.validated(branch, head, examined.words)
    if examined.needs_word:
        listed = "\n".join(f"- {each}" for each in examined.needs_word)
        return validated, f"Awaiting review: this needs the PM's word ('minifram review {branch}'):\n\n{listed}"
    if autonomy != "merge":
        how = f"Awaiting review: autonomy is {autonomy}, so the PM merges ('minifram review {branch}')."
        return validated, how
    try:
        into = retried(lambda: merge_into_main(context, head, examined, main))
    except GitError as error:
        if not refused(error):
            raise
        return validated, f"Awaiting review: the git door refused the merge into main. It said:\n\n{words_of(error)}"
    text = f"The keep examined it: {examined.words}. Main was at {context.git('rev-parse', f'{into}^1')[:12]} before."
    return report_titles.merged(branch, head, into), text


def merge_into_main(context: Cell, head: str, examined: Examination, examined_with: str) -> str:
    """Gives main's new commit. Raises MainMoved, GitError."""
    branch = context.boot.branch
    subject = context.git("log", "-1", "--no-merges", "--format=%s", head)
    trailers = f"Branch: {version(branch, head)}\nExamined: {examined.words}\n"
    message = f"Merge {branch}: {subject}\n\n{trailers}"

    def next_commit(seen: str) -> str | None:
        if changes_beyond_page(context.git, examined_with, seen):
            raise MainMoved
        return merge_commit(context.git, seen, head, message)

    return advance(CloneTip(context.git, MAIN), next_commit)


def indented(output: str) -> str:
    return "\n".join(f"    {line}" for line in output.splitlines())


def _lacks(context: Cell, head: str, main: str) -> bool:
    base = context.git("merge-base", head, main)
    return base != main and changes_beyond_page(context.git, base, main)


def _push_branch(context: Cell, head: str, merged: str) -> None:
    branch = context.boot.branch
    try:
        moved = retried(lambda: CloneTip(context.git, branch).move(head, merged))
    except GitError as error:
        if not refused(error):
            raise
        raise NotValidated("the git door refused the branch", words_of(error)) from None
    if not moved:
        why = f"origin's {branch} is not at {head[:12]}"
        raise NotValidated(why, f"{why}, which is what was bootstrapped; pull it into the clone, then try again.")
