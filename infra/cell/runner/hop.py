"""A hop's middle: this version, started on its own branch, has itself examined by the keep, merges into main if it
may, and hands over to main (seed 001, Hop-Scotch). Whatever goes wrong, it ends with main leading again, and with a
report."""

from __future__ import annotations

from collections.abc import Callable

from infra.cell.runner import examination
from infra.cell.runner.examination import Examined
from infra.cell.runner.handover import hand_over_to_main
from infra.cell.runner.home import Home
from infra.cell.runner.patience import patiently, refused, words_of
from infra.shared import door, report_titles
from infra.shared.branches import MAIN
from infra.shared.control import TENDING_SECONDS
from infra.shared.exit_codes import Exit
from infra.shared.repository.changes import changes_beyond_page
from infra.shared.repository.git import GitError
from infra.shared.repository.merge import MergeConflict, merge_commit
from infra.shared.repository.tip import CloneTip, advance
from infra.shared.requests import Examine, Reply

ROUNDS = 3
"""Main may move while a version is examined; then what would be merged was never examined."""

Ask = Callable[[Examine], Reply]


class NotValidated(Exception):
    """This version may not lead main; carries what the report shows of the reason."""

    def __init__(self, why: str, text: str) -> None:
        super().__init__(why)
        self.why = why
        self.text = text


class MainMoved(Exception):
    """Main has changes that were not there when this version was examined."""


def prove_and_hand_over(home: Home) -> Exit:
    """Raises Interrupted, and nothing else: the signal to main is written in every other case."""
    branch = home.boot.branch
    home.life.validating(branch)
    home.heart.beat("validating", TENDING_SECONDS)
    try:
        title, text = prove(home)
    except NotValidated as problem:
        title, text = report_titles.not_validated(branch, home.head_or_boot(), problem.why), problem.text
    except Exception as error:
        home.log.exception("hop.crashed")
        why = f"{type(error).__name__} in the runner"
        title, text = report_titles.not_validated(branch, home.head_or_boot(), why), f"{error}\n\nSee logs/errors.log."
    home.log.info("hop.judged", verdict=title)
    home.heart.beat("reporting", TENDING_SECONDS)
    try:
        home.page.report(title, text)
    except Exception:
        home.log.exception("hop.not_reported", title=title, text=text)
    return Exit.OK if hand_over_to_main(home, "the hop is over") else Exit.FAILURE


def prove(home: Home, ask: Ask | None = None) -> tuple[str, str]:
    """Have this version examined and merge it if that is allowed; gives the report. Raises NotValidated."""
    for _ in range(ROUNDS):
        main = bring_in_main(home)
        head = home.head()
        if home.git.ok("merge-base", "--is-ancestor", head, main):
            title = report_titles.validated(home.boot.branch, head, "main already holds it")
            return title, "There is nothing to merge, and so nothing to examine."
        examined = examination.wait(home, head, ask or asking(home))
        home.heart.beat("validating", TENDING_SECONDS)
        if not examined.passed:
            raise NotValidated(examined.words, f"{examined.words}\n\n{indented(examined.text)}")
        try:
            return settle(home, examined, main)
        except MainMoved:
            home.log.info("hop.main_moved", examined_with=main)
    raise NotValidated("main kept moving", f"Main changed during each of {ROUNDS} examinations; bootstrap again later.")


def asking(home: Home) -> Ask:
    return lambda request: door.ask(home.boot.places.request_socket, request)


def bring_in_main(home: Home) -> str:
    """Merge main into this branch and push it, if main has what the branch lacks; gives the commit of main.

    Raises NotValidated."""
    git, branch = home.git, home.boot.branch
    current = git("rev-parse", "--abbrev-ref", "HEAD")
    dirty = git("status", "--porcelain").splitlines()
    if current != branch or dirty:
        what = f"the checkout is on {current}" if current != branch else f"{len(dirty)} files are not committed"
        raise NotValidated(what, f"{what}; commit and push to {branch}, then bootstrap it again.")
    head = home.head()
    main = patiently(CloneTip(git).look)
    if not _lacks(home, head, main):
        return main
    try:
        merged = merge_commit(git, head, main, f"Merge main into {branch}\n", pages_of=main)
    except MergeConflict as conflict:
        raise NotValidated(f"conflict with main in {', '.join(conflict.files)}", str(conflict)) from None
    if merged is None:
        return main
    _push_branch(home, head, merged)
    git("merge", "--quiet", "--ff-only", merged)
    home.log.info("hop.main_merged_in", head=merged, main=main)
    return main


def settle(home: Home, examined: Examined, main: str) -> tuple[str, str]:
    """Merge what was examined together with `main`, or leave it to the PM; gives the report. Raises MainMoved."""
    branch, head, autonomy = home.boot.branch, home.head(), home.boot.autonomy
    validated = report_titles.validated(branch, head, examined.words)
    if examined.needs_word:
        listed = "\n".join(f"- {each}" for each in examined.needs_word)
        return validated, f"Awaiting review: this needs the PM's word ('minifram review {branch}'):\n\n{listed}"
    if autonomy != "merge":
        how = f"Awaiting review: autonomy is {autonomy}, so the PM merges ('minifram review {branch}')."
        return validated, how
    try:
        into = patiently(lambda: merge_into_main(home, head, examined, main))
    except GitError as error:
        if not refused(error):
            raise
        return validated, f"Awaiting review: the git door refused the merge into main. It said:\n\n{words_of(error)}"
    text = f"The keep examined it: {examined.words}. Main was at {home.git('rev-parse', f'{into}^1')[:12]} before."
    return report_titles.merged(branch, head, into), text


def merge_into_main(home: Home, head: str, examined: Examined, examined_with: str) -> str:
    """Gives main's new commit. Raises MainMoved, GitError."""
    branch = home.boot.branch
    subject = home.git("log", "-1", "--no-merges", "--format=%s", head)
    trailers = f"Branch: {report_titles.version(branch, head)}\nExamined: {examined.words}\n"
    message = f"Merge {branch}: {subject}\n\n{trailers}"

    def next_commit(seen: str) -> str | None:
        if changes_beyond_page(home.git, examined_with, seen):
            raise MainMoved
        return merge_commit(home.git, seen, head, message)

    return advance(CloneTip(home.git, MAIN), next_commit)


def indented(output: str) -> str:
    return "\n".join(f"    {line}" for line in output.splitlines())


def _lacks(home: Home, head: str, main: str) -> bool:
    base = home.git("merge-base", head, main)
    return base != main and changes_beyond_page(home.git, base, main)


def _push_branch(home: Home, head: str, merged: str) -> None:
    branch = home.boot.branch
    try:
        moved = patiently(lambda: CloneTip(home.git, branch).move(head, merged))
    except GitError as error:
        if not refused(error):
            raise
        raise NotValidated("the git door refused the branch", words_of(error)) from None
    if not moved:
        why = f"origin's {branch} is not at {head[:12]}"
        raise NotValidated(why, f"{why}, which is what was bootstrapped; pull it into the clone, then try again.")
