"""Packages where the cell reaches nothing but the doors: real pip, uv and npm find their index through the web door."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.keep.environments import pip as keeps_pip
from infra.keep.web_door import package_tools
from tests.egress.index import HOST, OTHER, certificate, pages
from tests.egress.namespaces import Nets
from tests.egress.near_end import AGENT
from tests.egress.test_packages import WHEEL, open_folder, wheel

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def index(nets: Nets) -> Iterator[Path]:
    """What the index is trusted by."""
    key, shown = certificate(nets.folder)
    nets.near.ask("load", mode="door")
    nets.near.ask("start_resolver")
    nets.far.ask("publish", pages=pages(), certificate=str(key))
    nets.near.ask("start_packages", hosts=[HOST])
    yield shown
    nets.far.ask("publish", pages={})
    nets.near.ask("stop_packages")
    nets.near.ask("stop_resolver")


def as_agent(nets: Nets, certificate: Path, *words: str, by_door: bool = True) -> tuple[int, str]:
    """With the environment that everything in the cell has; who can read the interpreter wherever it lies."""
    reads = "-all,+dac_read_search"
    become = ["setpriv", f"--reuid={AGENT}", f"--regid={AGENT}", "--clear-groups"]
    become += [f"--inh-caps={reads}", f"--ambient-caps={reads}", "--no-new-privs"]
    given = package_tools.environment("door") if by_door else {}
    given |= {"SSL_CERT_FILE": str(certificate), "npm_config_cafile": str(certificate)}
    pairs = [f"{name}={value}" for name, value in given.items()]
    status, told = nets.near.ask("run", command=[*become, "env", *pairs, *words])
    return status, told


def pip(nets: Nets, certificate: Path, target: Path, host: str = HOST, by_door: bool = True) -> tuple[int, str]:
    words = [sys.executable, "-I", "-m", "pip", "--isolated", "--no-cache-dir", "--disable-pip-version-check"]
    words += ["install", "--retries=1", "--timeout=5", f"--cert={certificate}", f"--index-url=https://{host}/simple/"]
    return as_agent(nets, certificate, *words, "--target", str(target), "sealedpkg", by_door=by_door)


def test_pip_uv_and_npm_install(nets: Nets, index: Path) -> None:
    """From the index that is named, as they come; npm where there is one."""
    for tool in ("pip", "uv", *(["npm"] if os.path.exists("/usr/bin/npm") else [])):
        target = open_folder(nets, f"by-door-{tool}")
        if tool == "pip":
            status, told = pip(nets, index, target)
        elif tool == "uv":
            words = [os.path.join(os.path.dirname(sys.executable), "uv"), "pip", "install", "--no-cache", "--no-config"]
            words += [f"--python={sys.executable}", f"--index-url=https://{HOST}/simple/", f"--target={target}"]
            status, told = as_agent(nets, index, *words, "sealedpkg")
        else:
            words = ["npm", "install", f"--registry=https://{HOST}/", f"--prefix={target}", f"--cache={target}/cache"]
            status, told = as_agent(nets, index, *words, "--no-audit", "--fetch-retries=0", "sealedpkg")
        assert status == 0, told
        found = target / ("node_modules/sealedpkg/package.json" if tool == "npm" else "sealedpkg.py")
        assert found.stat().st_uid == 100_000 + AGENT


def test_the_keeps_pip_downloads(nets: Nets, index: Path) -> None:
    """Which installs the environments of branches as the cell, and reads no settings of anybody's."""
    target = open_folder(nets, "by-door-keep")
    wanted = target / "requirements.txt"
    wanted.write_text(f"--index-url https://{HOST}/simple/\nsealedpkg==1.0\n")
    words = [sys.executable, "-I", "-m", "pip", f"--cert={index}"]
    words += keeps_pip.download_words(str(wanted), hashed=False, into=str(target))
    status, told = as_agent(nets, index, *words)
    assert status == 0, told
    assert (target / WHEEL).read_bytes() == wheel()


def test_another_index_is_refused_in_words(nets: Nets, index: Path) -> None:
    """Which pip shows; past the door there is no way at all."""
    target = open_folder(nets, "by-door-not")
    status, told = pip(nets, index, target)
    assert status == 0, told
    status, told = pip(nets, index, target, host=OTHER)
    assert status != 0
    assert f"{OTHER} is not in web.package_hosts; it names {HOST}" in told
    status, told = pip(nets, index, target, by_door=False)
    assert status != 0
    assert "name resolution" in told
    trace = nets.near.ask("stop_packages")
    seen = {(line["status"], line["origin"]) for line in trace}
    assert seen == {("package", f"https://{HOST}"), ("denied", f"https://{OTHER}")}
    nets.near.ask("start_packages", hosts=[HOST])
