"""`minifram init`: an agent is there whole or not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from host.agent import init as init_module
from host.agent.birth import give_mind
from host.errors import CommandError
from host.project import first_files, mind_files
from host.repository import open as bare
from infra.shared.mind import layout
from infra.shared.mind.beliefs import BELIEFS_FILE
from infra.shared.mind.inbox import parse_inbox
from infra.shared.mind.layout import FOLDERS
from infra.shared.mind.long_term import LONG_TERM_FILE
from infra.shared.mind.skill_graph import graph_problems
from infra.shared.mind.skill_index import lines_of
from infra.shared.mind.skills import skills_of
from infra.shared.mind.tiers import policy_of
from infra.shared.people import Person
from infra.shared.repository import bare_config
from infra.shared.settings_file import read_settings
from tests.host.desk import PROJECT, Desk, Ended

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


def test_a_new_agent_has_a_body_and_a_page(bare_desk: Desk) -> None:
    """The first commit on main is the PM's, and holds this project's parts with the template's body over them."""
    (bare_desk.root / "pm" / ".gitconfig").write_text("[user]\n name = Ada <PM>\n email = ada@example.invalid\n")
    (bare_desk.project / "infra" / "runner.py").chmod(0o755)

    ended = bare_desk.done("init")

    git = bare_desk.git()
    listed = git("ls-tree", "-r", "main").splitlines()
    assert {line.split("\t")[1] for line in listed} == BORN
    modes = {line.split("\t")[1]: line.split()[0] for line in listed}
    assert modes["infra/runner.py"] == "100755"
    assert modes["SYSTEM.md"] == "100644"
    assert git("log", "--format=%an <%ae> %cn", "main") == "Ada PM <ada@example.invalid> Ada PM"
    assert git("fsck", "--strict") == ""
    assert "minifram up" in ended.out
    assert bare_desk.home().remote in ended.out
    assert bare_desk.home().settings in ended.out


def test_the_repository_is_ours_bare_and_strict(desk: Desk) -> None:
    """Its configuration is what the design asks for, and only that; nobody else may enter."""
    config = bare.configuration(desk.home().remote)

    assert config["core.bare"] == "true"
    assert config["minifram.agent"] == "agent"
    assert {key.lower(): value for key, value in bare_config.SETTINGS}.items() <= config.items()
    assert config["receive.denydeletes"] == config["receive.denynonfastforwards"] == "true"
    assert set(config) <= bare_config.EXPECTED_KEYS
    for path in (desk.home().remote, desk.home().data, desk.home().state, desk.home().run):
        assert os.stat(path).st_mode & 0o777 == 0o700
    assert sorted(os.listdir(f"{desk.home().remote}/hooks")) == ["pre-receive", "reference-transaction"]


def test_the_pm_can_clone_edit_and_push_by_hand(desk: Desk, tmp_path: Path) -> None:
    """What the command does with git, plain git does as well."""

    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=PM", "-c", "user.email=pm@x", *words], check=True, cwd=tmp_path)

    git("clone", "--quiet", desk.home().remote, "work")
    page = tmp_path / "work" / "COMMS.md"
    page.write_text(page.read_text().replace("## Directives\n", "## Directives\n\n- [ ] by hand\n"))
    git("-C", "work", "commit", "--quiet", "-am", "a directive")
    git("-C", "work", "push", "--quiet", "origin", "main")

    assert desk.run("status", "--json").json["open_directives"] == 1
    assert "- [ ] by hand" in desk.page()


def test_the_options_stand_in_the_settings(bare_desk: Desk) -> None:
    """What was chosen at init is set in the settings file, and init says as JSON where all is."""
    words = ("init", "--model", "anthropic", "--autonomy", "frozen", "--sandbox", "podman", "--json")
    found = bare_desk.done(*words).json

    settings = read_settings(found["settings"])
    assert (settings.model.provider, settings.autonomy, settings.sandbox) == ("anthropic", "frozen", "podman")
    assert found["schema"] == "minifram.init/1"
    assert found["commit"] == bare_desk.main()
    assert {"agent", "remote", "bot", "state", "run", "settings_kept"} <= found.keys()


def test_a_second_init_is_refused_and_changes_nothing(desk: Desk) -> None:
    """An agent that exists is a conflict; another name is another agent beside it."""
    before = desk.main()

    again = desk.run("init")
    assert again.code == 6
    assert desk.home().data in again.err
    assert desk.main() == before

    desk.done("init", "--agent", "second")
    assert desk.git("second")("config", "--file", f"{desk.home('second').remote}/config", "minifram.agent") == "second"
    assert desk.main() == before


def test_a_directory_that_holds_no_agent_is_named_and_left_alone(bare_desk: Desk) -> None:
    """Init does not build into what somebody put there, and does not call it an agent either."""
    Path(bare_desk.home().data).mkdir(parents=True)
    Path(bare_desk.home().data, "notes").write_text("mine")

    ended = bare_desk.run("init")

    assert ended.code == 6
    assert "holds no agent" in ended.err
    assert bare_desk.run("status").code == 4
    assert Path(bare_desk.home().data, "notes").read_text() == "mine"


def _is_untouched(desk: Desk, ended: Ended, code: int) -> None:
    assert ended.code == code, ended
    assert "Traceback" not in ended.err
    assert not os.path.exists(desk.home().data)
    assert [path for path in Path(desk.environ["XDG_DATA_HOME"]).rglob("*") if path.name != "minifram"] == []
    assert not os.path.exists(desk.home().state)
    assert not os.path.exists(desk.home().settings)


@pytest.mark.parametrize("part", ["SYSTEM.md", "COMMS.md", "spec", "infra", ".gitignore", "bot-template"])
def test_a_project_that_lacks_a_part_makes_no_agent(bare_desk: Desk, part: str) -> None:
    """The missing part is named, and nothing is left behind."""
    path = bare_desk.project / part
    shutil.rmtree(path) if path.is_dir() else path.unlink()

    ended = bare_desk.run("init")

    _is_untouched(bare_desk, ended, 4)
    assert part in ended.err


def test_a_failure_half_way_leaves_nothing(bare_desk: Desk) -> None:
    """The settings cannot be written here: the repository that was already built goes again."""
    config = Path(bare_desk.environ["XDG_CONFIG_HOME"])
    config.write_text("a file where a directory should be")

    _is_untouched(bare_desk, bare_desk.run("init"), 1)
    config.unlink()
    bare_desk.done("init")


def test_what_a_killed_init_left_is_swept_away(bare_desk: Desk) -> None:
    """An unfinished directory beside the agents is not in the way of the next init."""
    unfinished = Path(bare_desk.environ["XDG_DATA_HOME"]) / "minifram" / ".agent.new" / "remote.git"
    unfinished.mkdir(parents=True)

    bare_desk.done("init")

    assert not unfinished.parent.exists()


def test_the_state_of_an_earlier_agent_is_not_inherited(bare_desk: Desk) -> None:
    """A watcher's memory of another repository would mislead the new one."""
    state = Path(bare_desk.home().state)
    state.mkdir(parents=True)
    (state / "watcher.json").write_text("{}")

    ended = bare_desk.run("init")

    assert ended.code == 6
    assert str(state) in ended.err
    assert not os.path.exists(bare_desk.home().data)


def test_a_settings_file_that_is_there_is_kept(bare_desk: Desk) -> None:
    """With options that would change it init refuses; without them it keeps the file, and says so."""
    path = Path(bare_desk.home().settings)
    path.parent.mkdir(parents=True)
    path.write_text("autonomy: frozen\n")

    assert bare_desk.run("init", "--model", "scripted").code == 6
    ended = bare_desk.done("init")

    assert path.read_text() == "autonomy: frozen\n"
    assert "kept" in ended.out


def test_two_inits_at_once_make_one_agent(bare_desk: Desk) -> None:
    """One wins; each of the others waits for it, and is told that there is such an agent already."""
    codes: list[int] = []

    def make() -> None:
        home = bare_desk.home()
        try:
            init_module.init_agent(home, str(bare_desk.project), None, "{}\n", Person("PM", "pm@x"), os.getuid())
            codes.append(0)
        except CommandError as trouble:
            codes.append(trouble.code)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(codes) == [0, 6, 6, 6]
    assert bare_desk.git()("fsck", "--strict") == ""


def test_a_socket_path_that_the_kernel_cannot_hold_is_refused_early(bare_desk: Desk) -> None:
    """Better at init than at the first start."""
    long = str(bare_desk.root / ("x" * 100))
    ended = bare_desk.run("init", XDG_RUNTIME_DIR=long)

    assert ended.code == 2
    assert "XDG_RUNTIME_DIR" in ended.err
    assert not os.path.exists(bare_desk.home().data)


def test_this_very_project_can_be_born() -> None:
    """Every part that an agent is born with is there, and nothing that tools leave comes along."""
    paths = {source.path for source in first_files(str(PROJECT))}

    assert {"SYSTEM.md", "COMMS.md", "infra/runner.py", "infra/watcher.py", "src/README.md"} <= paths
    assert not [path for path in paths if "__pycache__" in path or path.startswith(("host/", "bench/", "tests/host"))]


def test_an_empty_directory_in_its_place_is_taken(bare_desk: Desk) -> None:
    """Somebody made it for the agent; one that holds anything, or a link, is not the agent's."""
    home = bare_desk.home()
    os.makedirs(home.data)
    bare_desk.done("init")
    assert os.path.isdir(home.remote)

    second = bare_desk.home("second")
    os.makedirs(f"{second.data}/something")
    assert bare_desk.run("init", "--agent", "second").code == 6
    os.symlink("/nonexistent", bare_desk.home("third").data)
    assert bare_desk.run("init", "--agent", "third").code == 6


def test_a_new_agent_has_a_mind_of_its_own_history(bare_desk: Desk) -> None:
    """Branch `mind` is the PM's first commit, without a parent, with every folder of the tree."""
    bare_desk.done("init")

    git = bare_desk.git()
    assert git("rev-list", "--count", "mind") == "1"
    assert not git.ok("merge-base", "main", "mind")
    paths = set(git("ls-tree", "-r", "--name-only", "mind").splitlines())
    assert "boot/identity.md" in paths
    assert {f"{folder}/.gitkeep" for folder in FOLDERS if folder != "boot"} <= paths
    assert git("log", "--format=%an", "mind") == git("log", "--format=%an", "main")


def test_an_older_agent_gets_a_mind_once(desk: Desk) -> None:
    """What is there is not touched, whatever it holds. It is said when the agent's own code knows no mind."""
    git, home = desk.git(), desk.home()
    git("update-ref", "-d", "refs/heads/mind")
    said: list[str] = []

    give_mind(home, str(desk.project), Person("PM", "pm@x"), said.append)
    first = git("rev-parse", "mind")
    changed = desk.branch("mind", {"boot/identity.md": "# Another\n"}, start="mind")
    give_mind(home, str(desk.project), Person("PM", "pm@x"), said.append)

    assert git("rev-list", "mind").splitlines() == [changed, first]
    assert "branch 'mind'" in said[0]
    assert ["does not use it until infra/cell/mind is there" in line for line in said[1:]] == [True]
    knows = desk.branch("knows", {"infra/cell/mind/__init__.py": ""}, start="main")
    git("update-ref", "refs/heads/main", knows)
    git("update-ref", "-d", "refs/heads/mind")
    said.clear()
    give_mind(home, str(desk.project), Person("PM", "pm@x"), said.append)
    assert len(said) == 1
    Path(home.remote, "refs/heads/mind").write_text("damaged")
    give_mind(home, str(desk.project), Person("PM", "pm@x"), said.append)
    assert Path(home.remote, "refs/heads/mind").read_text() == "damaged"


def test_the_mind_of_this_very_project_is_whole() -> None:
    """Every file that code names is there, and reads without a problem; the tree is that of the specification."""
    files = {source.path: Path(source.file).read_text() if source.file else "" for source in mind_files(str(PROJECT))}

    named = {layout.IDENTITY, layout.INVARIANTS, layout.PRINCIPLES, layout.CONTEXT_POLICY, layout.WORKING}
    named |= {layout.LONG_TERM, layout.BELIEFS, layout.SKILLS_INDEX, layout.INBOX, layout.ACTIVE}
    named |= {layout.IMPROVEMENTS, layout.FAILURES, layout.OPEN_QUESTIONS, layout.DRIFT_REPORTS}
    named |= {"boot/recovery.md", "boot/environment_awareness.md", "memory/directory_map.md"}
    assert named <= files.keys()
    assert files["boot/bootstrap.md"] == files["boot/bootstrap.backup"]
    for text, file in ((files[layout.BELIEFS], BELIEFS_FILE), (files[layout.LONG_TERM], LONG_TERM_FILE)):
        read = file.parse(text, 0.0)
        assert (read.found, read.problems) == ((), ())
        assert file.mark_of(read.document.head) == 1
    core = skills_of({path: text.encode() for path, text in files.items() if path.endswith("/SKILL.md")})
    assert (core.problems, graph_problems(core)) == ((), ())
    listed = {(line.name, line.version) for line in lines_of(files[layout.SKILLS_INDEX])}
    assert listed == {(skill.name, str(skill.version)) for skill in core.found}
    assert policy_of(files[layout.CONTEXT_POLICY]).problem == ""
    assert parse_inbox(files[layout.INBOX]) == ((), ())
    tops = {path.split("/")[0] for path in files}
    assert tops == {".gitignore", "memory", *(folder.split("/")[0] for folder in FOLDERS)}
    for path, text in files.items():
        assert len(text) < 4000, path
