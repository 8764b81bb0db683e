"""`minifram discover`: an experiment beside the agents, in which a model or the PM explores a world by a shell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from host.commands.options import agent_option, command
from host.context import Context
from host.display import Screen, counted, one_line, plain
from host.errors import not_found, usage
from host.paths import discovery_paths
from infra.shared.exit_codes import Exit

if TYPE_CHECKING:
    from host.discovery.exploring import Ended
    from host.discovery.runs import Summary

MODEL_STEPS = 100
LEAST_USD, MOST_USD = 0.0001, 1_000_000
engine_option = click.option(
    "--engine",
    type=click.Choice(["podman", "docker"]),
    default="podman",
    show_default=True,
    help="What runs containers.",
)


@click.group("discover")
def discover() -> None:
    """An experiment beside the agents: a model, or you, alone with a shell in a container that is open to the internet,
    explores a world; runs are scored and compared.

    Its container is not sealed, and its boundary is the container alone. It shares no container, volume, key or network
    with an agent. The model is set in discovery.yaml beside the agents' settings (keys as in minifram.yaml: model,
    budget); its key comes from $DISCOVERY_ANTHROPIC_API_KEY or $DISCOVERY_OPENAI_API_KEY.

    \b
    Examples:
      minifram discover run --seed 7 --size small
      minifram discover run --manual
      minifram discover list
      minifram discover compare --svg coverage.svg
    """


discover.params.append(agent_option())


@command
@click.option("--seed", type=click.IntRange(min=0), help="Explore the world of this number.")
@click.option("--size", metavar="S", help="Its size: small, a like name, or a number of files.")
@click.option("--world", metavar="DIR", help="Explore this directory, or a world that 'discover world' made.")
@click.option("--steps", type=click.IntRange(min=1), help="Commands at most (a model: 100).")
@click.option("--usd", type=float, help="US dollars at most, not budget.unit_usd.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="Of one command at most.")
@click.option("--manual", is_flag=True, help="You explore, by pasting blocks.")
@click.option("--settings", metavar="FILE", help="Not discovery.yaml beside the agents' settings.")
@engine_option
@click.option("--image", metavar="NAME", help="Not the one of discovery's own Dockerfile.")
@click.option("--rebuild", is_flag=True, help="Build that image again.")
@click.option("--name", metavar="NAME", help="Of the container.")
@click.option("--keep", is_flag=True, help="Leave container and volume there at the end.")
def discover_run(
    context: Context,
    screen: Screen,
    seed: int | None,
    size: str | None,
    world: str | None,
    steps: int | None,
    usd: float | None,
    seconds: float | None,
    manual: bool,
    settings: str | None,
    engine: str,
    image: str | None,
    rebuild: bool,
    name: str | None,
    keep: bool,
) -> int:
    """Explore: make the world, start a container of its own, let the model explore, score it, remove the container.

    Without --seed and --world it is the world of three files. The image is built when it is missing. Ctrl-C ends the
    run and removes the container; the run is kept.
    """
    from host.discovery import door, exploring, worlds
    from host.discovery import engine as engines

    places = discovery_paths(context.environ, context.uid)
    if seed is not None and world:
        raise usage("--seed makes a world, --world names one; take one of them")
    if size and seed is None:
        raise usage("--size is of a world that --seed makes; give --seed too")
    if steps is None and not manual:
        steps = MODEL_STEPS  # a model without a price has no other end
    if manual and (usd is not None or settings):
        raise usage("--usd and --settings are for a model; --manual spends nothing")
    if usd is not None and not LEAST_USD <= usd <= MOST_USD:  # also for nan
        raise usage(f"--usd is {usd:g}; expected US dollars from {LEAST_USD:g} to {MOST_USD:,}")
    model = None if manual else door.read(settings or places.settings, context.environ, usd)
    found = engines.find(engine, context.environ, context.uid)
    if seed is not None:
        chosen = worlds.make(places, context.root, found.environ, seed, size)
    else:
        chosen = worlds.given(world) if world else worlds.of_the_seed(context.root)
    used = exploring.image_of(context, found, image, rebuild, screen.progress)
    wanted = exploring.Wanted(
        chosen, model, found, used, name or "", steps, seconds, keep, to_terminal=not screen.schema
    )
    ended = exploring.run(context, places, wanted, screen.progress)
    told = plain(ended.summary) | {"score": ended.score, "kept": ended.kept}
    screen.show(told, _ended(ended))
    return Exit.OK


def _ended(ended: Ended) -> Iterator[str]:
    yield from _summary(ended.summary)
    if ended.score is not None:
        yield from _figures(ended.score)


def _summary(found: Summary) -> Iterator[str]:
    yield f"run           {found.directory}"
    yield f"explored by   {one_line(found.model)}, the {one_line(found.world)}"
    spent = "" if found.usd is None else f", ${found.usd:.4f}"
    yield f"ended by      {one_line(found.ended_by, 200)} after {counted(found.steps or 0, 'step')}{spent}"


def _figures(report: dict[str, Any]) -> Iterator[str]:
    from host.discovery.runs import figures

    yield from (f"{name:<24}  {one_line(words, 200)}" for name, words in figures(report))


@command
@click.argument("run")
@click.option("--explain", is_flag=True, help="Show the evidence, line by line.")
@click.option("--no-tools", is_flag=True, help="Do not run the explorer's tools on other data; needs no engine.")
@click.option("--engine", type=click.Choice(["podman", "docker"]), help="Where they are run; default: the run's own.")
def discover_score(
    context: Context, screen: Screen, run: str, explain: bool, no_tools: bool, engine: str | None
) -> int:
    """Score a run again. RUN is a name of 'discover list', its beginning, or a directory."""
    from host.container.podman import environment
    from host.discovery import engine as engines
    from host.discovery import exploring, runs

    directory = runs.find(discovery_paths(context.environ, context.uid), run)
    if no_tools:
        environ, chosen = environment(context.environ), None
    else:
        found = engines.find(engine or _engine_of(runs.summary(directory)), context.environ, context.uid)
        environ, chosen = exploring.script_environ(found), found.name
    report, said = runs.score(directory, context.root, environ, chosen, not no_tools, explain)
    for line in said:
        screen.progress(line)
    screen.show(
        plain(runs.summary(directory)) | {"score": report}, [*_summary(runs.summary(directory)), *_figures(report)]
    )
    return Exit.OK


def _engine_of(found: Summary) -> str:
    return found.engine if found.engine in ("podman", "docker") else "podman"


@command
@click.argument("run", nargs=-1)
@click.option("--svg", metavar="FILE", help="Draw what was read, over steps and over money.")
def discover_compare(context: Context, screen: Screen, run: tuple[str, ...], svg: str | None) -> int:
    """Compare runs by their models, paired by world; without RUN all of 'discover list'."""
    from host.container.podman import environment
    from host.discovery import runs

    places = discovery_paths(context.environ, context.uid)
    directories = [runs.find(places, one) for one in run] or [f"{places.runs}/{name}" for name in runs.names(places)]
    if not directories:
        raise not_found(f"there is no run in {places.runs}; make one with 'minifram discover run'")
    out, said = runs.compare(directories, context.root, environment(context.environ), svg, bool(screen.schema))
    for line in said:
        screen.progress(line)
    screen.show(json.loads(out) if screen.schema else {}, out.removesuffix("\n"), verbatim=True)
    return Exit.OK


@command
def discover_list(context: Context, screen: Screen) -> int:
    """List the runs, the oldest first."""
    from host.discovery import runs

    places = discovery_paths(context.environ, context.uid)
    found = [runs.summary(f"{places.runs}/{name}") for name in runs.names(places)]
    screen.show({"directory": places.runs, "runs": found}, _listed(found))
    if not found:
        screen.advise(f"no run in {places.runs}; 'minifram discover run' makes one")
    return Exit.OK


def _listed(found: list[Summary]) -> Iterator[str]:
    for each in found:
        if each.problem:
            yield f"{each.run}  {one_line(each.problem, 200)}"
            continue
        share = "" if each.files_read is None else f"  read {each.files_read:.0%}"
        right = "" if each.questions_right is None else f"  right {each.questions_right:.0%}"
        spent = "" if each.usd is None else f"  ${each.usd:.4f}"
        ended = one_line(each.ended_by, 60) or "goes on, or was killed"
        who = f"{one_line(each.model, 30):<30}  {one_line(each.world, 24):<24}"
        yield f"{each.run}  {who}  {counted(each.steps or 0, 'step'):>9}{spent}{share}{right}  {ended}"


@command
@click.option(
    "--seed", type=click.IntRange(min=0), required=True, help="Its number: the same one is the same world here."
)
@click.option("--size", metavar="S", help="small, a like name, or a number of files.")
@click.option("--contents", type=click.IntRange(min=0), help="Number of the contents; else a secret of this machine.")
@click.option("--out", metavar="DIR", help="Make it there, in a directory that is new or empty.")
def discover_world(
    context: Context, screen: Screen, seed: int, size: str | None, contents: int | None, out: str | None
) -> int:
    """Make a world, with the list of what can be known of it beside it, which never goes into a container."""
    from host.container.podman import environment
    from host.discovery import worlds

    places = discovery_paths(context.environ, context.uid)
    made = worlds.make(places, context.root, environment(context.environ), seed, size, contents, out)
    screen.show(made, [f"world  {made.directory}", f"known  {made.known}"])
    return Exit.OK


for _name, _command in {
    "run": discover_run,
    "score": discover_score,
    "compare": discover_compare,
    "list": discover_list,
    "world": discover_world,
}.items():
    discover.add_command(_command, _name)
