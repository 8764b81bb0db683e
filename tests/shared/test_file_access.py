"""The keep and the host touch the cell's files through `Below` alone: who opens files by itself has its reason here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FORBIDDEN = {
    *("open", "io.open", "os.open", "os.walk", "os.fwalk", "os.listdir", "os.scandir", "glob.glob", "glob.iglob"),
    *("os.replace", "os.rename", "os.truncate", "os.removedirs", "os.chmod", "os.chown", "os.link", "os.symlink"),
    *("shutil.rmtree", "shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move"),
}
METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "rglob", "iterdir"}
OF_THE_CELL = {"bot", "checkout", "main_checkout", "signals", "environments", "mind"}
"""Attributes of `Paths` that name what the cell writes."""

OWN = "the keep's own state, which the cell cannot write"
KERNEL = "/proc"
SCRATCH = "a scratch directory that it made itself"
ALLOWED = {
    "infra/keep/verdicts/refs.py": "the bare repository",
    "infra/keep/repository/bare_tip.py": "the bare repository",
    "infra/keep/running_code.py": "the project's own code",
    "infra/keep/known_secrets.py": "the PM's keys",
    "infra/keep/settings/check.py": "the PM's settings",
    "infra/keep/questions.py": OWN,
    "infra/keep/ledger/": OWN,
    "infra/keep/mind/": OWN,
    "infra/keep/model_door/": OWN,
    "infra/keep/services/": OWN,
    "infra/keep/sockets.py": OWN,
    "infra/keep/web_door/worker_process.py": KERNEL,
    "infra/keep/git_door/": "the bare repository, written through the door alone, and the keep's own state",
    "infra/keep/seal/": "the bare repository before anything of the cell runs, and /proc",
    "infra/keep/egress/": KERNEL + " and the image",
    "infra/keep/examination/": SCRATCH,
    "infra/keep/rehearsal/": SCRATCH + ", and the keep's own state in it",
    "infra/keep/limits/sample.py": KERNEL,
    "infra/keep/supervision/memory.py": OWN,
    "infra/keep/examination/trials.py": OWN,
    "infra/keep/supervision/main.py": "the repository's refs, which only the keep writes",
    "infra/keep/code.py": "writes copies of commits where the cell may only read",
    "infra/keep/supervision/clones.py": "moves the logs between two clones, within `acting`",
    "infra/keep/environments/install.py": "runs as the cell, in a process of its own",
    "host/up.py": "the PM's keys",
    "host/demo.py": "the demo's own agent, before it runs",
    "host/container/container.py": "whether the cell's tree is empty, before anything runs",
    "host/serve/agents.py": "the directories of the bare repository's refs, and the keep's own state",
    "host/init.py": "makes the agent: nothing of it runs yet",
}


def calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in FORBIDDEN or (isinstance(node.func, ast.Attribute) and node.func.attr in METHODS):
                yield name


def opening() -> dict[str, set[str]]:
    """Modules of the keep, and those of the host that name the cell's places, with what they open files by."""
    found = {}
    for path in (path for top in ("infra/keep", "host") for path in sorted((ROOT / top).rglob("*.py"))):
        tree = ast.parse(path.read_text())
        names = set(calls(tree))
        names_the_cell = any(isinstance(node, ast.Attribute) and node.attr in OF_THE_CELL for node in ast.walk(tree))
        if names and (names_the_cell or not path.is_relative_to(ROOT / "host")):
            found[str(path.relative_to(ROOT))] = names
    return found


def test_files_of_the_cell_are_touched_through_the_one_type() -> None:
    """Every other way of opening, listing or moving files has its reason, and no reason outlives its module."""
    found = opening()
    assert {name: names for name, names in found.items() if not name.startswith(tuple(ALLOWED))} == {}
    there = {name for name in ALLOWED if (ROOT / name).exists()}
    assert {name for name in there if not any(path.startswith(name) for path in found)} == set()
