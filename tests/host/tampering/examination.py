"""Trying the attempts: each at fresh copies of one prepared site, against minifram's verbs, plain git, and the PM's own
clone, pull and push. What came of it is a row of the table, which the tests hold it against."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

from host.agent import up as running
from host.errors import CommandError
from tests.host.desk import Desk, Ended
from tests.host.tampering import above, below, content
from tests.host.tampering.acts import Act
from tests.host.tampering.site import Site
from tests.host.tampering.vector import (
    BLOCKED,
    DONE,
    HARMFUL,
    OUTSIDE,
    REFUSED,
    RUNS,
    VERBS,
    WAITS,
    WORKS,
    Row,
    Vector,
    outside,
)

VECTORS = sorted([*above.VECTORS, *below.VECTORS, *content.VECTORS], key=lambda vector: vector.line)

WITHOUT_GIT = {"logs": ("logs",), "config": ("config", "budget")}
VERB_SECONDS = 30.0
NOT_RUNNING = 3

NewSite = Callable[[], Site]


def examine(vector: Vector, new_site: NewSite) -> Row:
    """Try one attempt."""
    site = _planted(vector, new_site())
    doctor = _doctor(vector, site)
    verbs = _verbs(vector, site)
    does = vector.control(site if vector.verbs == REFUSED else _planted(vector, new_site()))
    pm = _pm(_planted(vector, new_site())) if vector.pm else None
    return Row(vector.line, vector.attempt, _expected(vector), _words(verbs, doctor, does, pm))


def examine_act(act: Act, new_site: NewSite) -> Row:
    return Row(act.line, act.attempt, act.expected, act.attempted(new_site()))


def _planted(vector: Vector, site: Site) -> Site:
    vector.plant(site)
    site.mark.unlink(missing_ok=True)
    return site


def _expected(vector: Vector) -> str:
    doctor = "names it" if vector.finding else "has no finding"
    return _words(_summary(vector), doctor, vector.does, vector.pm)


def _summary(vector: Vector) -> str:
    return f"{vector.verbs} (but for {' and '.join(vector.other)})" if vector.other else vector.verbs


def _words(verbs: str, doctor: str, does: str, pm: tuple[str, ...] | None) -> str:
    by_hand = f"; the PM's clone: {pm[0]}, pull: {pm[1]}, push: {pm[2]}" if pm else ""
    return f"minifram: {verbs}, doctor {doctor}; plain git: {does}{by_hand}"


def _verbs(vector: Vector, site: Site) -> str:
    """What all verbs do, in a word; what is wrong, if they do not do the same or anything is wrong at all."""
    before = outside(site)
    found = {name: _outcome(vector, site, words) for name, words in VERBS.items()} | {"up": _up(vector, site)}
    opposite = {REFUSED: WORKS, WORKS: REFUSED}[vector.verbs]
    expected = {name: opposite if name in vector.other else vector.verbs for name in found}
    wrong = [f"{name} {said}" for name, said in found.items() if said != expected[name]]
    for name, words in WITHOUT_GIT.items():
        if (ended := site.desk.run(*words)).code:
            wrong.append(f"{name} {ended}")
    wrong += ["ran the program"] if site.mark.exists() else []
    wrong += ["left the repository"] if outside(site) != before else []
    return "; ".join(wrong) or _summary(vector)


def _outcome(vector: Vector, site: Site, words: tuple[str, ...]) -> str:
    began = time.monotonic()
    ended = site.desk.run(*words)
    if time.monotonic() - began > VERB_SECONDS:
        return f"takes over {VERB_SECONDS:g} s"
    if HARMFUL.search(ended.out + ended.err):
        return "lets through what steers a terminal"
    if ended.code in (0, NOT_RUNNING):
        return WORKS
    return _refusal(vector, ended.err) or str(ended)


def _refusal(vector: Vector, words: str) -> str:
    """A refusal names the thing and a command that helps."""
    return REFUSED if vector.finding in words and ("minifram doctor" in words or "git clone" in words) else ""


def _up(vector: Vector, site: Site) -> str:
    """What `minifram up` finds before it starts anything."""
    try:
        running.make_ready(site.desk.context(), "process", lambda _: None)
    except CommandError as trouble:
        return _refusal(vector, str(trouble)) or str(trouble)
    return WORKS


def _doctor(vector: Vector, site: Site) -> str:
    began = time.monotonic()
    ended = site.desk.run("doctor")
    said = ended.out + ended.err
    if time.monotonic() - began > VERB_SECONDS:
        return f"takes over {VERB_SECONDS:g} s"
    if site.mark.exists() or HARMFUL.search(said):
        return "runs the program, or lets through what steers a terminal"
    named = [line for line in _findings(ended) if vector.finding in line]
    if not vector.finding:
        return "has no finding" if not _findings(ended) else f"finds {_findings(ended)}"
    return "names it" if named else f"does not name {vector.finding!r}: {_findings(ended)}"


def _findings(ended: Ended) -> list[str]:
    about = ("repository", "configuration", "planted", "hooks", "content")
    return [line for line in ended.out.split("\n") if line.startswith(("warn", "fail")) and line.split()[1] in about]


def _pm(site: Site) -> tuple[str, str, str]:
    """What becomes of plain clone, pull and push by path, by a PM who has not asked the doctor."""
    before = outside(site)

    def tried(*words: str, cwd: Path) -> str:
        said = site.plain(*words, cwd=cwd)
        if site.mark.exists():
            return RUNS
        if outside(site) != before:
            return OUTSIDE
        return WAITS if said.status is None else BLOCKED if said.status else DONE

    clone = tried("clone", "--quiet", str(site.remote), "second", cwd=site.desk.root)
    pull = tried("pull", "--quiet", "--rebase", cwd=site.clone)
    site.plain("commit", "--quiet", "--allow-empty", "-m", "mine", cwd=site.clone)
    push = tried("push", "--quiet", "origin", "HEAD:refs/heads/main", "HEAD:refs/heads/mine", cwd=site.clone)
    return clone, pull, push


def sites_at(directory: Path) -> NewSite:
    """Gives fresh copies of one prepared site."""
    first = _site(directory / "first")
    first.desk.write_project()
    first.desk.done("init")
    first.prepare()
    numbers = itertools.count(1)

    def new_site() -> Site:
        site = _site(directory / f"site{next(numbers)}")
        site.like(first)
        return site

    return new_site


def _site(root: Path) -> Site:
    root.mkdir()
    return Site(Desk(root))
