"""Packages where the cell reaches nothing but the doors: real pip and uv install through the web door's mirror."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.keep.egress import packages
from infra.shared.exit_codes import Exit
from infra.shared.paths import ROOT
from tests.egress.index import HOST, OTHER, WHEEL, certificate, pages
from tests.egress.namespaces import Nets
from tests.egress.near_end import AGENT

pytestmark = pytest.mark.heavy

GIVEN = {name: value.replace("pypi.org", HOST) for name, value in packages.environment("door").items()}
"""What everything in the cell has, but for the name of the index."""


@pytest.fixture(scope="module")
def index(nets: Nets) -> Iterator[None]:
    key, shown = certificate(nets.folder)
    nets.near.ask("load", mode="door")
    nets.near.ask("start_resolver")
    nets.far.ask("publish", pages=pages(), certificate=str(key))
    nets.near.ask("start_packages", hosts=[HOST], certificate=str(shown))
    yield
    nets.far.ask("publish", pages={})
    nets.near.ask("stop_packages")
    nets.near.ask("stop_resolver")


def as_agent(nets: Nets, *words: str, by_door: bool = True) -> tuple[int, str]:
    """With the environment that everything in the cell has; who can read the interpreter wherever it lies."""
    reads = "-all,+dac_read_search"
    become = ["setpriv", f"--reuid={AGENT}", f"--regid={AGENT}", "--clear-groups"]
    become += [f"--inh-caps={reads}", f"--ambient-caps={reads}", "--no-new-privs"]
    pairs = [f"{name}={value}" for name, value in GIVEN.items()] if by_door else []
    status, told = nets.near.ask("run", command=[*become, "env", *pairs, *words])
    return status, told


def open_folder(nets: Nets, name: str) -> Path:
    folder = nets.folder / name
    folder.mkdir()
    os.chmod(folder, 0o777)
    return folder


def pip(nets: Nets, target: Path, *more: str, by_door: bool = True) -> tuple[int, str]:
    words = [sys.executable, "-s", "-m", "pip", "--no-cache-dir", "--disable-pip-version-check", "install"]
    words += ["--retries=0", "--timeout=5", *more, "--target", str(target), "sealedpkg"]
    return as_agent(nets, *words, by_door=by_door)


def uv(nets: Nets, target: Path) -> tuple[int, str]:
    words = [os.path.join(os.path.dirname(sys.executable), "uv"), "pip", "install", "--no-cache", "--no-config"]
    return as_agent(nets, *words, f"--python={sys.executable}", f"--target={target}", "sealedpkg")


@pytest.mark.parametrize("tool", [pip, uv])
def test_they_install(nets: Nets, index: None, tool: Callable[[Nets, Path], tuple[int, str]]) -> None:
    """From the index that is named, told by the environment alone."""
    target = open_folder(nets, f"by-door-{tool.__name__}")
    status, told = tool(nets, target)
    assert status == 0, told
    assert (target / "sealedpkg.py").stat().st_uid == 100_000 + AGENT


def test_the_keep_installs_an_environment(nets: Nets, index: None) -> None:
    """As the cell, whose settings it does not read; a package that the index does not have is no outage."""
    copy, bot = open_folder(nets, "by-door-copy"), open_folder(nets, "by-door-bot")
    words = [sys.executable, "-s", "-P", "-m", "infra.keep.environments.install", str(bot), f"{bot}/.environments"]
    for wanted, expected in (("sealedpkg==1.0", Exit.OK), ("sealedpkg==2.0", Exit.FAILURE)):
        (copy / "requirements.txt").write_text(wanted)
        status, told = as_agent(nets, f"PYTHONPATH={ROOT}", *words, "60", str(copy))
        assert status == expected, told
    assert [path.stat().st_uid for path in bot.rglob("sealedpkg.py")] == [100_000 + AGENT]


@pytest.mark.attack("S44")
def test_another_index_is_refused_in_words(nets: Nets, index: None) -> None:
    """Which pip shows with -vv; past the door there is no way at all."""
    target = open_folder(nets, "by-door-not")
    status, told = pip(nets, target)
    assert status == 0, told
    status, told = pip(nets, target, "-vv", f"--index-url={packages.HOME}/{OTHER}/simple/", "--upgrade")
    assert status != 0
    assert f"{OTHER} is not in web.package_hosts; it names {HOST}" in told
    status, told = pip(nets, target, "-vv", f"--index-url=https://{HOST}/simple/", "--upgrade", by_door=False)
    assert status != 0
    assert "name resolution" in told
    trace = nets.near.ask("package_trace")
    seen = {(line["status"], line.get("origin")) for line in trace}
    assert seen >= {("package", f"https://{HOST}"), ("denied", f"https://{OTHER}")}
    assert f"https://{HOST}/files/{WHEEL}" in {line.get("url") for line in trace}
