"""`minifram init`: an agent is there whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from host.project import first_files, mind_files
from infra.cell.mind.context import policy_of
from infra.cell.mind.memory import memory_of
from infra.cell.mind.skills import index_of, skills_of
from infra.keep.repository import bare_config
from infra.keep.settings.check import read_settings
from infra.shared.mind import layout
from infra.shared.mind.layout import FOLDERS
from infra.shared.mind.tasks import inbox_of
from tests.host.desk import PROJECT, Desk

INIT = ("init", "--sandbox", "process")
BORN = {
    ".gitattributes",
    ".gitignore",
    "COMMS.md",
    "SYSTEM.md",
    "bot-template/mind/boot/identity.md",
    "infra/__init__.py",
    "infra/runner.py",
    "infra/shared/__init__.py",
    "pyproject.toml",
    "spec/SPEC_SYSTEM.md",
    "src/README.md",
    "tests/__init__.py",
    "tests/shared/__init__.py",
    "tests/shared/test_words.py",
}


def test_a_new_agent_has_a_body_and_a_mind(bare_desk: Desk) -> None:
    """The first commit on main is the PM's, and holds this project's parts with the template's body over them; the
    mind has a history of its own."""
    (bare_desk.root / "pm" / ".gitconfig").write_text("[user]\n name = Ada <PM>\n email = ada@example.invalid\n")
    (bare_desk.project / "infra" / "runner.py").chmod(0o755)

    ended = bare_desk.done(*INIT)

    git = bare_desk.git()
    listed = git("ls-tree", "-r", "main").splitlines()
    assert {line.split("\t")[1] for line in listed} == BORN
    modes = {line.split("\t")[1]: line.split()[0] for line in listed}
    assert modes["infra/runner.py"] == "100755"
    assert modes["SYSTEM.md"] == "100644"
    assert git("log", "--format=%an <%ae> %cn", "main") == "Ada PM <ada@example.invalid> Ada PM"
    assert git("fsck", "--strict") == ""
    assert git("rev-list", "--count", "mind") == "1"
    assert not git.ok("merge-base", "main", "mind")
    paths = set(git("ls-tree", "-r", "--name-only", "mind").splitlines())
    assert {"boot/identity.md", *(f"{folder}/.gitkeep" for folder in FOLDERS if folder != "boot")} <= paths
    assert git("log", "--format=%an", "mind") == "Ada PM"
    assert "minifram up" in ended.out
    assert bare_desk.home().remote in ended.out
    assert bare_desk.home().settings in ended.out


def test_the_repository_is_ours_bare_and_strict(desk: Desk) -> None:
    """Its configuration is what the design asks for, and only that; nobody else may enter."""
    assert Path(desk.home().remote, "config").read_text() == bare_config.config_text("agent")
    assert desk.git()("config", "--bool", "core.bare") == "true"
    for path in (desk.home().remote, desk.home().data, desk.home().state, desk.home().run):
        assert os.stat(path).st_mode & 0o777 == 0o700
    assert sorted(os.listdir(f"{desk.home().remote}/hooks")) == ["reference-transaction"]


def test_the_options_stand_in_the_settings(bare_desk: Desk) -> None:
    """What was chosen at init is set in the settings file, and init says as JSON where all is."""
    words = ("init", "--model", "anthropic", "--autonomy", "frozen", "--sandbox", "process", "--json")
    found = bare_desk.done(*words).json

    settings = read_settings(found["settings"])
    assert (settings.model.provider, settings.autonomy, settings.sandbox) == ("anthropic", "frozen", "process")
    assert found["schema"] == "minifram.init/1"
    assert found["commit"] == bare_desk.main()
    assert {"agent", "remote", "bot", "state", "run", "settings_kept"} <= found.keys()


def test_a_second_init_is_refused_and_changes_nothing(desk: Desk) -> None:
    """What is there is a conflict, and so is another's link in its place; another name is another agent beside it."""
    before = desk.main()
    os.makedirs(f"{desk.home('else').data}/something")
    os.symlink("/nonexistent", desk.home("third").data)
    for agent in ("agent", "else", "third"):
        again = desk.run(*INIT, "--agent", agent)
        assert (again.code, desk.home(agent).data in again.err) == (6, True)
    assert desk.main() == before

    os.makedirs(desk.home("second").data)  # an empty one was made for it
    desk.done(*INIT, "--agent", "second")
    assert desk.git("second")("config", "--file", f"{desk.home('second').remote}/config", "minifram.agent") == "second"
    assert desk.main() == before


@pytest.mark.parametrize(
    ("spoil", "code", "words"),
    [
        (lambda desk: (desk.project / "SYSTEM.md").unlink(), 4, "SYSTEM.md"),
        (lambda desk: shutil.rmtree(desk.project / "infra"), 4, "infra"),
        (lambda desk: os.makedirs(f"{desk.home().state}/earlier"), 6, "/state/minifram/agent"),
        (lambda desk: desk.environ.update(XDG_RUNTIME_DIR=f"{desk.root}/{'x' * 100}"), 2, "XDG_RUNTIME_DIR"),
    ],
)
def test_what_no_agent_can_be_made_of_is_named(
    bare_desk: Desk, spoil: Callable[[Desk], object], code: int, words: str
) -> None:
    """A project that lacks a part, another watcher's memory, which would mislead the new one, a path of sockets that
    the kernel cannot hold; nothing is left behind."""
    spoil(bare_desk)
    home = bare_desk.home()
    before = os.path.exists(home.state)

    ended = bare_desk.run(*INIT)

    assert (ended.code, words in ended.err, "Traceback" in ended.err) == (code, True, False)
    assert [os.path.exists(path) for path in (home.data, home.settings, home.state)] == [False, False, before]


def test_a_failure_half_way_is_not_in_the_way(bare_desk: Desk) -> None:
    """The settings cannot be written here: no agent is there, nor what a killed init left of another."""
    config = Path(bare_desk.environ["XDG_CONFIG_HOME"])
    config.write_text("a file where a directory should be")
    unfinished = Path(bare_desk.home().data).with_name(".agent.new")
    (unfinished / "remote.git").mkdir(parents=True)

    assert bare_desk.run(*INIT).code == 1
    assert os.listdir(unfinished.parent) == []
    assert not os.path.exists(bare_desk.home().state)
    config.unlink()
    bare_desk.done(*INIT)


def test_a_settings_file_that_is_there_is_kept(bare_desk: Desk) -> None:
    """With options that would change it init refuses; without them it keeps the file, and says so."""
    path = Path(bare_desk.home().settings)
    path.parent.mkdir(parents=True)
    path.write_text("sandbox: process\n")

    assert bare_desk.run("init", "--model", "scripted").code == 6
    ended = bare_desk.done("init")

    assert path.read_text() == "sandbox: process\n"
    assert "kept" in ended.out


def test_two_inits_at_once_make_one_agent(bare_desk: Desk) -> None:
    """One wins; each of the others waits for it, and is told that there is such an agent already."""
    processes = [bare_desk.spawn(*INIT) for _ in range(4)]
    for process in processes:
        with process:
            process.communicate(timeout=60)

    assert sorted(process.returncode for process in processes) == [0, 6, 6, 6]
    assert bare_desk.git()("fsck", "--strict") == ""


def test_this_very_project_can_be_born() -> None:
    """Every part that an agent is born with is there, and nothing that tools leave comes along."""
    paths = {source.path for source in first_files(str(PROJECT))}

    assert {"SYSTEM.md", "COMMS.md", "infra/runner.py", "infra/watcher.py", "src/README.md"} <= paths
    assert not [path for path in paths if "__pycache__" in path or path.startswith(("host/", "bench/", "tests/host"))]


def test_the_mind_of_this_very_project_is_whole() -> None:
    """Every file that code names is there, and reads without a problem; the tree is that of the specification."""
    files = {source.path: Path(source.file).read_text() if source.file else "" for source in mind_files(str(PROJECT))}

    named = {layout.IDENTITY, layout.INVARIANTS, layout.PRINCIPLES, layout.CONTEXT_POLICY, layout.WORKING}
    named |= {layout.LONG_TERM, layout.BELIEFS, layout.SKILLS_INDEX, layout.INBOX, layout.ACTIVE}
    named |= {layout.IMPROVEMENTS, layout.FAILURES, layout.OPEN_QUESTIONS, layout.DRIFT_REPORTS}
    named |= {"boot/recovery.md", "boot/environment_awareness.md", "memory/directory_map.md"}
    assert named <= files.keys()
    assert files["boot/bootstrap.md"] == files["boot/bootstrap.backup"]
    read = memory_of({path: files[path] for path in (layout.BELIEFS, layout.LONG_TERM)})
    assert (read.every, read.problems) == ((), ())
    core = skills_of({path: text.encode() for path, text in files.items() if path.endswith("/SKILL.md")})
    assert (core.problems, core.graph_problems()) == ((), ())
    assert files[layout.SKILLS_INDEX] == index_of(core, lambda skill: 1.0)
    assert policy_of(files[layout.CONTEXT_POLICY])[1] == ""
    assert inbox_of(files[layout.INBOX]) == ((), ())
    tops = {path.split("/")[0] for path in files}
    assert tops == {".gitignore", "memory", *(folder.split("/")[0] for folder in FOLDERS)}
    for path, text in files.items():
        assert len(text) < 4000, path
