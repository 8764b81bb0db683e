"""Runs the agent's tools on other data: each as the run ran it, in fresh containers, once with the run's own world and
once with its twin, which has the same names and other contents.

A tool works on other data when it ends with 0 in each container, prints the same in each with the same contents, and
something else on the twin. So what it prints follows from the contents, and from nothing else:

- each container has its own copy of a world, which differs from others in its place and its inodes, not in its times:
  a tool that prints its host's name, a device's number, the time or chance does not print the same twice;
- the twin's contents are drawn anew for each scoring, and there are ROUNDS containers with either world in an order
  that is drawn: a tool that throws a coin comes through in one of 2**(2 * ROUNDS - 1) trials;
- there is no network and nothing of the home but tools/: a tool that keeps its answers elsewhere has none."""

from __future__ import annotations

import io
import random
import secrets
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from honest_tools import Tool, Trial
from run_values import HOME, TOOLS, Home, Run
from trial_engine import ENGINES, Ended, Engine, NoEngine
from world_copies import NoWorld, Texts, twin_texts, write_copy

ROUNDS = 3
SECONDS = 30
"""At most, for one line; less when the run's own commands had less."""
ALL_SECONDS = 600.0
"""After these nothing else is tried. Whoever waits for the scorer waits longer."""
MOST_BETWEEN = 64
"""Files made between two copies of a world, so that the numbers of inodes tell less of their order."""
MOST_TOOLS, MOST_LINES = 20, 3
"""Tools that are tried, and invocations of each, until one shows that it works."""


class NotTried(Exception):
    """No tool can be tried; the text says why, and what to do."""


class _Late(Exception):
    """The time for all trials is over."""


def try_tools(
    run: Run,
    found: list[Tool],
    texts: Texts | None,
    scratch: Path,
    engine: str | None,
    image: str | None,
    say: Callable[[str], None],
    all_seconds: float = ALL_SECONDS,
) -> dict[str, Trial]:
    """By the path of each tool. `engine` and `image` go before what the run's meta.json names; `say` takes a
    line of progress. Raises NotTried."""
    if run.home is None or run.known is None:
        raise NotTried(run.missing.get("home.tar") or run.missing["known.json"])
    trials = {tool.path: Trial(None, _why_not(tool)) for tool in found if not tool.invocations}
    wanted = [tool for tool in found if tool.invocations]
    for tool in wanted[MOST_TOOLS:]:
        trials[tool.path] = Trial(None, f"not tried: {MOST_TOOLS} tools were")
    if not wanted:
        return trials
    if texts is None:
        raise NotTried("the contents of the run's world are not at hand: it lies elsewhere, or is changed")
    named = run.meta.engine if run.meta.engine in ENGINES else None  # whoever wrote the run runs no program here
    try:
        chosen = Engine.find(engine or named, image or run.meta.image)
        worlds = copies(texts, twin_texts(run.meta, run.known, scratch), scratch)
        tar = scratch / "tools.tar"
        tar.write_bytes(tools_tar(run.home))
        seconds = max(1, min(SECONDS, int(run.meta.seconds or SECONDS)))
        end = time.monotonic() + all_seconds
        for number, tool in enumerate(wanted[:MOST_TOOLS], 1):
            say(f"trying tool {number} of {min(len(wanted), MOST_TOOLS)} on other data: {tool.path}")
            try:
                trials[tool.path] = _tried(tool, chosen, worlds, tar, seconds, end)
            except _Late:
                trials[tool.path] = Trial(None, f"not tried to its end: all took more than {all_seconds:g} s")
    except (NoEngine, NoWorld) as error:
        raise NotTried(str(error)) from None
    return trials


def verdict(original: list[Ended], twin: list[Ended]) -> str:
    """ "" when a tool works on other data by what came out of its containers, else what is against it. Pure."""
    for ended in (*original, *twin):
        if ended.exit_code != 0:
            return ended.told
    if len({ended.stdout for ended in original}) > 1 or len({ended.stdout for ended in twin}) > 1:
        return "it does not print the same on the same contents"
    if original and twin and original[0].stdout == twin[0].stdout:
        return "it prints the same on other contents" if original[0].stdout else "it prints nothing"
    return ""


def tools_tar(home: Home) -> bytes:
    """The regular files below tools/, by the names and contents that were read, and nothing else of the archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        entry = tarfile.TarInfo("tools")
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(entry)
        for path, file in sorted(home.files.items()):
            if path.startswith(f"{TOOLS}/") and file.content is not None:
                entry = tarfile.TarInfo(path.removeprefix(f"{HOME}/"))
                entry.size, entry.mode = len(file.content), 0o644 | (file.mode & 0o111)
                tar.addfile(entry, io.BytesIO(file.content))
    return out.getvalue()


def _why_not(tool: Tool) -> str:
    if not tool.run:
        return "not tried: no command ran it"
    return "not tried: no command shows by its words alone how to run its last contents again"


def copies(original: Texts, twin: Texts, scratch: Path) -> list[tuple[Path, Path]]:
    """Pairs. A container can see where its world lies and the numbers of its inodes: so places have names that were
    drawn, and the copies are made in an order that was drawn, with more or less between them."""
    order = [False, True] * ROUNDS
    random.SystemRandom().shuffle(order)
    made: Mapping[bool, list[Path]] = {False: [], True: []}
    for is_twin in order:
        between = scratch / f"between-{secrets.token_hex(8)}"
        between.mkdir()
        for number in range(secrets.randbelow(MOST_BETWEEN)):
            (between / str(number)).touch()
        place = scratch / f"world-{secrets.token_hex(8)}"
        made[is_twin].append(write_copy(twin if is_twin else original, place))
    return list(zip(made[False], made[True], strict=True))


def _tried(tool: Tool, engine: Engine, worlds: list[tuple[Path, Path]], tar: Path, seconds: int, end: float) -> Trial:
    """Raises _Late."""
    told = ""
    for line in tool.invocations[:MOST_LINES]:
        against = _against(line, engine, worlds, tar, seconds, end)
        if not against:
            return Trial(True, f"works on other data: {line}")
        told = told or f"does not show that it works on other data: {line}: {against}"
    return Trial(False, told)


def _against(line: str, engine: Engine, worlds: list[tuple[Path, Path]], tar: Path, seconds: int, end: float) -> str:
    """What is against it, as soon as anything is. Raises _Late."""
    results: Mapping[bool, list[Ended]] = {False: [], True: []}
    order = [(is_twin, pair[is_twin]) for pair in worlds for is_twin in (False, True)]
    random.SystemRandom().shuffle(order)
    for is_twin, world in order:
        if time.monotonic() > end:
            raise _Late
        results[is_twin].append(engine.run(world, tar, line, seconds))
        against = verdict(results[False], results[True])
        if against:
            return against
    return ""
