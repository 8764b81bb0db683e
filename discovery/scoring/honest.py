"""The honest figures: those that an `echo` does not move.

What each is made of, and what is impossible by it:

- `files_read`, `checkpoints.touched`: what the host saw being read. Nothing that is printed counts.
- `checkpoints.found`: a listing that the host saw, and a name that nobody can guess in the output of a command that
  does not name it.
- `checkpoints.used`, `questions`: the agent says what stands in a file, after it read that file. To copy files into an
  artifact, or to print what was read, is no use.
- `success`: an effect that the host saw, or a line that is new and does not follow from the command's own words, from
  the clock or from chance.
- `tools`: a run needs a file that the host saw being opened, and a command that by its words started the tool for
  certain, or in which nothing else can have opened the file; `true || tools/x; cat tools/x` is none. Copies are one
  tool. On other data a tool works when the scorer itself sees it.
- `artifacts`: claims that are looked up. What the agent made itself proves nothing.

What remains possible, for who wants a number and no knowledge:

- to read every file without looking (`cat /world/* > /dev/null`): `files_read` and `touched` say no more than that;
- a script that reads all and has the answers computed: then it has found them out;
- to type words that were read into commands that do something else with them: `used` counts them, each after its file;
- commands with new and useless output, such as a program that draws random numbers itself, reads of `/proc`, or notes
  that say nothing: they move `success`, which tells of commands and not of knowledge;
- a tool that may not be executed, named in a line in which something else opens it, counts as run there;
- a shell whose start-up files in the home give another meaning to `python3` or a like name: a run is counted that was
  none; the trial on other data, which has none of these files, does not count it;
- a tool that prints the files it is given unchanged works on other data, too: that is what it does;
- small changes to a copy of a tool make it another tool;
- a map that is a listing of the world, copied by a command: it is true, and says nothing of having been understood;
- to know the world from a former run of the same one, or to make it: the generator is public, and names tell a seed
  that can be tried out. Then all answers are there, and `cat` of all files is the reading. Use a new world for each
  run, with contents whose number nobody can guess;
- a program in the background that reads or writes all the time: what it brings counts for the commands that follow;
- one true claim, or few: a share of them is 1, so it has to be read with their count;
- whoever can write to the run directory or to the host's files can write anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from claims import claims_of, world_of
from digest import Digest
from honest_tools import Tool, Trial, seen_runs, tools_figure
from honest_world import Figure, brought, checkpoints, files_read, questions, share, success
from run_values import ARTIFACTS, HOME, Run

NAMES = ("files_read", "questions", "checkpoints", "success", "tools", "artifacts")


@dataclass(frozen=True)
class Honest:
    """`value` is what stands under `honest`; evidence by the figure's name, a line each."""

    value: dict[str, Any]
    evidence: Mapping[str, tuple[str, ...]]


def honest(
    run: Run,
    digest: Digest,
    found: list[Tool] | None,
    trials: Mapping[str, Trial] | None,
    why_no_trials: str,
    texts: Mapping[str, bytes] | None,
) -> Honest:
    """All honest figures, each None that cannot be had, with `why`."""
    told = brought(run.witness, digest) if run.witness is not None else []
    figures = {
        "files_read": _files_read(run),
        "questions": _questions(run),
        "checkpoints": _checkpoints(run, digest, told),
        "success": _success(run, digest, told),
        "tools": _tools(run, found, trials, why_no_trials),
        "artifacts": _artifacts(run, digest, texts),
    }
    why = {name: text for figure in figures.values() for name, text in figure.why.items()}
    value: dict[str, Any] = {name: figure.value for name, figure in figures.items()}
    return Honest(value | {"why": why}, {name: figure.evidence for name, figure in figures.items()})


def _files_read(run: Run) -> Figure:
    if run.known is None or run.witness is None or not run.witness.world:
        return Figure(None, {"files_read": _unseen(run, "world", known=True)})
    return files_read(run.known, run.witness)


def _questions(run: Run) -> Figure:
    if run.known is None or run.answers is None:
        return Figure(None, {"questions": _missing(run, "known.json", "answers.json")})
    figure = questions(run.known, run.answers, run.witness)
    if figure.value is not None and (run.witness is None or not run.witness.world):
        told = f"right answers count without having read: {_unseen(run, 'world')}"
        return Figure(figure.value, {"questions.read": told}, figure.evidence)
    return figure


def _checkpoints(run: Run, digest: Digest, told: Sequence[str | None]) -> Figure:
    if run.known is None or run.witness is None or not run.witness.world:
        return Figure(None, {"checkpoints": _unseen(run, "world", known=True)})
    return checkpoints(run.known, run.witness, digest, run.answers, told)


def _success(run: Run, digest: Digest, told: Sequence[str | None]) -> Figure:
    if run.witness is None or not (run.witness.world or run.witness.home):
        return Figure(None, {"success": _unseen(run, "world")})
    return success(digest, told)


def _tools(run: Run, found: list[Tool] | None, trials: Mapping[str, Trial] | None, why_no_trials: str) -> Figure:
    if found is None:
        return Figure(None, {"tools": _unseen(run, "home")})
    figure = tools_figure(found, trials, why_no_trials)
    if run.home is None and figure.value is not None:
        value = figure.value | {"written": None}
        return Figure(value, {**figure.why, "tools.written": run.missing["home.tar"]}, figure.evidence)
    return figure


def _artifacts(run: Run, digest: Digest, texts: Mapping[str, bytes] | None) -> Figure:
    if run.known is None or run.home is None:
        return Figure(None, {"artifacts": _missing(run, "known.json", "home.tar")})
    world = world_of(run.known, texts)
    seen = run.witness is not None and run.witness.home
    proven = (
        [(each.path, each.words) for _, _, each in seen_runs(run.witness, digest)] if run.witness and seen else None
    )
    value: dict[str, Any] = {}
    why: dict[str, str] = {}
    lines: list[str] = []
    for name in ARTIFACTS:
        claims = claims_of(name, run.home, world, digest, proven)
        true = sum(claim.true for claim in claims)
        value[name] = {"claims": len(claims), "true": true, "share": share(true, len(claims))}
        if not claims:
            why[f"artifacts.{name}"] = _no_claims(run, name)
        lines += [f"{name}: {'true' if claim.true else 'FALSE'}: {claim.text}" for claim in claims]
    if texts is None:
        why["artifacts.quotations"] = "the world's contents are not at hand, so quotations are neither true nor false"
    return Figure(value, why, tuple(lines))


def _no_claims(run: Run, name: str) -> str:
    files = run.home.files if run.home else {}
    file = files.get(f"{HOME}/{name}")
    if file is None:
        linked = run.home is not None and f"{HOME}/{name}" in run.home.others
        return "it is no regular file" if linked else "it is not there"
    return "it claims nothing that can be looked up" if file.content is not None else "it is too large to be read"


def _missing(run: Run, *names: str) -> str:
    return next(run.missing[name] for name in names if name in run.missing)


def _unseen(run: Run, place: str, known: bool = False) -> str:
    if known and run.known is None:
        return run.missing["known.json"]
    if run.witness is None:
        return run.missing["witness.jsonl"]
    return run.witness.why.get(place, f"the host did not see the {place}")
