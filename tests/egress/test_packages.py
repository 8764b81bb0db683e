"""Packages are installed through the rules: pip finds an index by its name and fetches from it, as the cell's user."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import sys
import zipfile
from pathlib import Path

import pytest

from tests.egress.namespaces import Nets
from tests.egress.near_end import AGENT

pytestmark = pytest.mark.heavy

WHEEL = "sealedpkg-1.0-py3-none-any.whl"


def wheel() -> bytes:
    """The smallest package there is."""
    info = "sealedpkg-1.0.dist-info"
    files = {
        "sealedpkg.py": "WORD = 'installed'\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: sealedpkg\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return held.getvalue()


def publish(nets: Nets) -> None:
    content = wheel()
    link = f'<a href="/files/{WHEEL}#sha256={hashlib.sha256(content).hexdigest()}">{WHEEL}</a>'
    page = f"<!DOCTYPE html><html><body>{link}</body></html>".encode()
    pages = {"/simple/sealedpkg/": page, f"/files/{WHEEL}": content}
    nets.far.ask("publish", pages={path: base64.b64encode(body).decode() for path, body in pages.items()})


def pip(nets: Nets, *words: str, host: str = "index.example") -> tuple[int, str]:
    """As the agent, who for once may read every file: the interpreter can lie where only its owner looks."""
    reads = "-all,+dac_read_search"
    become = ["setpriv", f"--reuid={AGENT}", f"--regid={AGENT}", "--clear-groups"]
    become += [f"--inh-caps={reads}", f"--ambient-caps={reads}", "--no-new-privs"]
    python = [sys.executable, "-I", "-m", "pip", "--isolated", "--no-cache-dir", "--disable-pip-version-check"]
    network = ["--index-url", f"http://{host}/simple/", "--trusted-host", host, "--retries", "0", "--timeout", "5"]
    command = [*become, *python, words[0], *network, "--no-deps", *words[1:], "sealedpkg"]
    status, told = nets.near.ask("run", command=command)
    return status, told


def open_folder(nets: Nets, name: str) -> Path:
    folder = nets.folder / name
    folder.mkdir()
    os.chmod(folder, 0o777)
    return folder


def test_install_with_the_open_rules(open_nets: Nets) -> None:
    """Nothing has to be listed."""
    publish(open_nets)
    open_nets.near.ask("start_resolver")
    target = open_folder(open_nets, "open")
    status, told = pip(open_nets, "install", "--target", str(target))
    assert status == 0, told
    assert (target / "sealedpkg.py").stat().st_uid == 100_000 + AGENT  # it was the cell's user who did it
    open_nets.near.ask("stop_resolver")
