"""The command line that the keep's programs share: where the four trees are, and the settings file."""

from __future__ import annotations

import argparse

import msgspec

from infra.shared.paths import CONTAINER, Paths


def parser(program: str, description: str) -> argparse.ArgumentParser:
    """A parser with `--settings` and one option for each tree; the defaults are the container's."""
    made = argparse.ArgumentParser(prog=program, description=description, allow_abbrev=False)
    made.add_argument("--settings", required=True, help="the PM's minifram.yaml")
    for name, default in msgspec.structs.asdict(CONTAINER).items():
        made.add_argument(f"--{name}", default=default, help=f"default {default}")
    return made


def places(given: argparse.Namespace) -> Paths:
    return Paths(bot=given.bot, remote=given.remote, run=given.run, var=given.var)


def words(settings: str, where: Paths) -> list[str]:
    """The arguments that `parser` reads back to these values."""
    return [f"--settings={settings}", *(f"--{name}={path}" for name, path in msgspec.structs.asdict(where).items())]
