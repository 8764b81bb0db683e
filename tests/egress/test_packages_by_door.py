"""Packages where the cell reaches nothing but the doors: real pip, uv and npm install through the web door's mirror."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.keep.egress import packages
from infra.keep.environments import pip as keeps_pip
from tests.egress.index import HOST, OTHER, certificate, pages
from tests.egress.namespaces import Nets
from tests.egress.near_end import AGENT
from tests.egress.test_packages import WHEEL, open_folder, wheel

pytestmark = pytest.mark.heavy

GIVEN = {
    name: value.replace("pypi.org", HOST).replace("registry.npmjs.org", HOST)
    for name, value in packages.environment("door").items()
}
"""What everything in the cell has, but for the names of the indexes."""


@pytest.fixture(scope="module")
def index(nets: Nets) -> Iterator[str]:
    """What the door trusts the index by."""
    key, shown = certificate(nets.folder)
    nets.near.ask("load", mode="door")
    nets.near.ask("start_resolver")
    nets.far.ask("publish", pages=pages(), certificate=str(key))
    nets.near.ask("start_packages", hosts=[HOST], certificate=str(shown))
    yield str(shown)
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


def pip(nets: Nets, target: Path, *more: str, by_door: bool = True) -> tuple[int, str]:
    words = [sys.executable, "-s", "-m", "pip", "--no-cache-dir", "--disable-pip-version-check", "install"]
    words += ["--retries=0", "--timeout=5", *more, "--target", str(target), "sealedpkg"]
    return as_agent(nets, *words, by_door=by_door)


def uv(nets: Nets, target: Path) -> tuple[int, str]:
    words = [os.path.join(os.path.dirname(sys.executable), "uv"), "pip", "install", "--no-cache", "--no-config"]
    return as_agent(nets, *words, f"--python={sys.executable}", f"--target={target}", "sealedpkg")


def npm(nets: Nets, target: Path) -> tuple[int, str]:
    words = ["npm", "install", f"--prefix={target}", f"--cache={target}/cache", "--fetch-retries=0", "sealedpkg"]
    return as_agent(nets, *words)


@pytest.mark.parametrize(
    ("tool", "made"), [(pip, "sealedpkg.py"), (uv, "sealedpkg.py"), (npm, "node_modules/sealedpkg/package.json")]
)
def test_they_install(nets: Nets, index: str, tool: object, made: str) -> None:
    """From the index that is named, told by the environment alone; npm where there is one."""
    if tool is npm and not os.path.exists("/usr/bin/npm"):
        pytest.skip("there is no npm")
    target = open_folder(nets, f"by-door-{tool.__name__}")  # type: ignore[attr-defined]
    status, told = tool(nets, target)  # type: ignore[operator]
    assert status == 0, told
    assert (target / made).stat().st_uid == 100_000 + AGENT


def test_the_keeps_pip_downloads(nets: Nets, index: str) -> None:
    """Which installs the environments of branches as the cell, and reads no settings of anybody's."""
    target = open_folder(nets, "by-door-keep")
    wanted = target / "requirements.txt"
    wanted.write_text("sealedpkg==1.0\n")
    words = [sys.executable, "-I", "-m", "pip"]
    words += keeps_pip.download_words(str(wanted), hashed=False, into=str(target), index=GIVEN["PIP_INDEX_URL"])
    status, told = as_agent(nets, *words)
    assert status == 0, told
    assert (target / WHEEL).read_bytes() == wheel()


def test_another_index_is_refused_in_words(nets: Nets, index: str) -> None:
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
    trace = nets.near.ask("stop_packages")
    seen = {(line["status"], line.get("origin")) for line in trace}
    assert seen >= {("package", f"https://{HOST}"), ("denied", f"https://{OTHER}")}
    assert f"https://{HOST}/files/{WHEEL}" in {line.get("url") for line in trace}
    nets.near.ask("start_packages", hosts=[HOST], certificate=index)
