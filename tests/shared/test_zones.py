"""The wall between host, keep and cell, read from the imports; and that keep and host touch the cell's files through
`Below` alone: who opens files by itself has its reason here."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_OF_THE_KEEP = ("watcher", "git_door", "model_door", "web_door", "seal")
PROGRAMS = {f"infra.{name}": "keep" for name in _OF_THE_KEEP} | {
    "infra.runner": "cell",
    "host.cli": "host",
    "host.__main__": "host",
}
ALLOWED = {"shared": set(), "keep": {"shared"}, "cell": {"shared"}, "host": {"shared", "keep", "cell"}}


def zone(module: str) -> str:
    parts = module.split(".")
    return PROGRAMS.get(module) or ("host" if parts[0] == "host" else parts[1] if len(parts) > 1 else "shared")


def folder(module: str) -> str:
    """The modules of a zone's own folder stand for themselves."""
    above = module.rpartition(".")[0]
    return module if module in PROGRAMS or above in ("host", "infra.keep", "infra.cell") else above


@functools.cache
def modules() -> dict[str, Path]:
    files = [path for top in ("infra", "host") for path in (ROOT / top).rglob("*.py")]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in files}


@functools.cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text()) for name, path in modules().items()}


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """With those within others, and without their expressions, which are most of a tree."""
    within = [tree]
    while within:
        yield (node := within.pop())
        blocks = (getattr(node, name, ()) for name in ("body", "orelse", "handlers", "finalbody", "cases"))
        within += (each for block in blocks if isinstance(block, list) for each in block)


@functools.cache
def imports() -> list[tuple[str, str]]:
    """(importing module, imported module) for every import of ours, wherever in a file it stands."""
    names, found = trees(), list[tuple[str, str]]()
    for name, tree in names.items():
        for node in statements(tree):
            if isinstance(node, ast.Import):
                found += ((name, alias.name) for alias in node.names if alias.name in names)
            elif isinstance(node, ast.ImportFrom) and node.module in names:
                inner = (f"{node.module}.{alias.name}" for alias in node.names)
                found += ((name, each if each in names else node.module) for each in inner)
    return found


@pytest.fixture(scope="module", autouse=True)
def _read_once() -> None:
    """The whole tree, at the cost of no test."""
    imports()


def test_no_zone_imports_another_but_as_the_architecture_says() -> None:
    """Keep and cell share only `shared`, which imports nothing else; the host reads the ledger and replays runs."""
    wrong = {
        f"{one} imports {other}" for one, other in imports() if zone(other) not in {zone(one), *ALLOWED[zone(one)]}
    }
    assert wrong == set()


def test_shared_is_what_keep_and_cell_both_reach() -> None:
    """What one zone alone uses lies there."""
    uses: dict[str, set[str]] = {}
    for one, other in imports():
        uses.setdefault(one, set()).add(other)
    reached: dict[str, set[str]] = {}
    for side in ("keep", "cell"):
        waiting, seen = [module for module in modules() if zone(module) == side], set[str]()
        while waiting:
            found = {other for other in uses.get(waiting.pop(), ()) if zone(other) == "shared"} - seen
            seen |= found
            waiting += found
        reached[side] = seen
    shared = {name for name, path in modules().items() if zone(name) == "shared" and path.name != "__init__.py"}
    assert shared - reached["keep"] == set()
    assert shared - reached["cell"] == set()


def test_the_decision_of_the_watcher_imports_no_edge() -> None:
    """`decide/` is values and words: no file, process, socket or clock is within its reach; only the loop calls it."""
    inside, words = "infra.keep.supervision.decide", ["branches", "clock", "signals"]
    pure = {"infra.keep.watcher_file", *(f"infra.shared.{word}" for word in words)}
    assert {b for a, b in imports() if a.startswith(inside) and not b.startswith(inside)} <= pure
    assert {a for a, b in imports() if b == f"{inside}.decision"} == {"infra.watcher"}


def test_no_circle_of_folders() -> None:
    """Each folder can be read after those that it imports."""
    edges: dict[str, set[str]] = {}
    for one, other in imports():
        if folder(one) != folder(other):
            edges.setdefault(folder(one), set()).add(folder(other))
    while leaves := set().union(*edges.values()) - edges.keys():
        edges = {one: rest for one, others in edges.items() if (rest := others - leaves)}
    assert edges == {}


def test_no_two_public_classes_of_a_zone_have_one_name() -> None:
    """One word, one meaning: a reader who knows a name knows which one it is."""
    seen: dict[tuple[str, str], str] = {}
    for module, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                first = seen.setdefault((zone(module), node.name), module)
                assert first == module, f"{node.name} is a class of {first} and of {module}"


def test_no_module_is_longer_than_a_reader_holds() -> None:
    """At most 350 lines; a longer one has a second subject."""
    long = {module: lines for module, path in modules().items() if (lines := path.read_text().count("\n")) > 350}
    assert long == {}


FORBIDDEN = {
    *("open", "io.open", "os.open", "os.walk", "os.fwalk", "os.listdir", "os.scandir", "glob.glob", "glob.iglob"),
    *("os.replace", "os.rename", "os.truncate", "os.removedirs", "os.chmod", "os.chown", "os.link", "os.symlink"),
    *("shutil.rmtree", "shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move"),
}
LAST_NAMES = {name.rpartition(".")[2] for name in FORBIDDEN}
METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "rglob", "iterdir"}
OF_THE_CELL = {"bot", "checkout", "main_checkout", "signals", "environments", "mind"}
"""Attributes of `Paths` that name what the cell writes."""

OWN = "the keep's own state, which the cell cannot write"
KERNEL = "/proc"
SCRATCH = "a scratch directory that it made itself"
OPENERS = {
    "infra/keep/verdicts/refs.py": "the bare repository",
    "infra/keep/repository/bare_tip.py": "the bare repository",
    "infra/keep/running_code.py": "the project's own code",
    "infra/keep/known_secrets.py": "the PM's keys",
    "infra/keep/questions.py": OWN,
    "infra/keep/ledger/": OWN,
    "infra/keep/mind/": OWN,
    "infra/keep/model_door/": OWN,
    "infra/keep/services/": OWN,
    "infra/keep/sockets.py": OWN,
    "infra/keep/web_door/worker_process.py": KERNEL,
    "infra/keep/eye/": KERNEL + ", its own script, and a scratch directory of a browser",
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
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            last = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if last in METHODS or (last in LAST_NAMES and ast.unparse(node.func) in FORBIDDEN):
                yield last


def opening() -> dict[str, set[str]]:
    """Modules of the keep, and those of the host that name the cell's places, with what they open files by."""
    found = {}
    for module, path in modules().items():
        tree = trees()[module]
        if not module.startswith(("infra.keep.", "host.")):
            continue
        names = set(calls(tree))
        names_the_cell = any(isinstance(node, ast.Attribute) and node.attr in OF_THE_CELL for node in ast.walk(tree))
        if names and (names_the_cell or not path.is_relative_to(ROOT / "host")):
            found[str(path.relative_to(ROOT))] = names
    return found


def test_files_of_the_cell_are_touched_through_the_one_type() -> None:
    """Every other way of opening, listing or moving files has its reason, and no reason outlives its module."""
    found = opening()
    assert {name: names for name, names in found.items() if not name.startswith(tuple(OPENERS))} == {}
    there = {name for name in OPENERS if (ROOT / name).exists()}
    assert {name for name in there if not any(path.startswith(name) for path in found)} == set()
