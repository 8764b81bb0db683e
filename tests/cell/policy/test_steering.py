"""Which calls of work that has read the web are asked about, and that each is asked about once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.cell.loop.actions import ToolCall, ToolResult
from infra.cell.loop.arguments import schema
from infra.cell.loop.registry import SideEffect, Tool, Verdict
from infra.cell.loop.toolbox import Toolbox
from infra.cell.policy.decide import Call
from infra.cell.policy.exploration import beyond
from infra.cell.policy.gate import gate_of
from infra.shared.conversation import ToolSpec
from infra.shared.policy import Policy, Rule, to_text
from tests.shared.rows import each_row

EVIL = ("https://evil.example",)


@each_row(
    "command, needs",
    [
        ("minifram-web fetch https://a.example", "web"),
        ("true && /usr/bin/minifram-web search words", "web"),
        ("curl -sS https://a.example/x | head", "web"),
        ("wget a.example", "web"),
        ("curl localhost:8080/health", ""),
        ("curl http://127.0.0.1:80/", ""),
        ("pip install x", "tools"),
        ("python3 -m pip3.11 --quiet install x", "tools"),
        ("uv pip install -r requirements.txt", "tools"),
        ("cd web; npm i", "tools"),
        ("sudo apt-get -y install jq", "tools"),
        ("npx thing", "tools"),
        ("for each in a b; do cargo add $each; done", "tools"),
        ("pip list", ""),
        ("grep -rn 'pip install' docs", ""),
        ("make test", ""),
    ],
)
def test_what_a_question_must_be_marked_for(command: str, needs: str) -> None:
    """As far as the words of a command go; what installs a tool may fetch it."""
    call = Call("bash", "execute", {"command": command})
    refused = {part for part in ("", "web", "tools", "skills") if beyond(part, call)}
    free = {"": {"", "web", "tools", "skills"}, "web": {"web"}, "tools": {"tools"}}[needs]
    if needs == "web" and "minifram-web" not in command:
        free |= {"tools"}
    assert refused == {"", "web", "tools", "skills"} - free
    assert not beyond("", Call("read_file", "read", {"path": "pip install"}))
    assert beyond("tools", Call("fetch_page", "read", {"url": "https://a.example"}))


class Bench:
    """Tools that do nothing behind a real gate; the PM answers nothing."""

    def __init__(self, checkout: Path, policy: Policy = Policy(), origins: tuple[str, ...] = EVIL) -> None:  # noqa: B008
        self.asked: list[str] = []
        self.looked = 0
        self.origins = origins
        text = {"type": "string"}
        self.toolbox = Toolbox(
            [
                Tool(ToolSpec(name, "", schema({}, fields)), lambda *_: ToolResult("done"), 1000, effect)
                for name, effect, fields in (
                    ("bash", SideEffect.EXECUTE, {"command": text, "cwd": text}),
                    ("read_file", SideEffect.READ, {"path": text}),
                    ("write_file", SideEffect.WRITE, {"path": text}),
                    ("delete_file", SideEffect.WRITE, {"path": text}),
                    ("bootstrap", SideEffect.AUTH, {"branch": text}),
                )
            ],
            gate_of(to_text(policy), str(checkout), self._ask, self._tainted_by),
        )

    def _ask(self, tool: str, given: Mapping[str, Any], why: str) -> Verdict:
        self.asked.append(why)
        return Verdict(False, "asked", "awaiting_approval")

    def _tainted_by(self) -> tuple[str, ...]:
        self.looked += 1
        return self.origins

    def asks(self, tool: str, **given: Any) -> bool:
        before = len(self.asked)
        result = self.toolbox.call(ToolCall("1", tool, given))
        assert len(self.asked) - before in (0, 1), "a call is asked about once"
        assert result.ok == (len(self.asked) == before)
        return len(self.asked) > before


ASKED = (
    *("echo x > SYSTEM.md", "echo x >>./system.md", "tee infra/a.py", "rm -r spec", "cp a skills/a.md", "mv a boot/"),
    *(
        "python -c \"open('infra/a.py','w')\"",
        "cat a >/bot/x/minifram/infra/b.py",
        "git add infra/a.py",
        "git push --all",
    ),
    *(
        "sed -n -i p infra/a.py",
        "sed -n 1p -i infra/a.py",
        "sed -n 'w infra/x' a",
        "git diff --output=infra/x",
        "$x; git -C . push origin main",
    ),
    *("sed -i s/a/b/ infra/a.py", "echo main > /bot/.signal/bootstrap", "echo $x | tee infra/a.py", "git rm spec/x.md"),
    *(
        "cat <<E > SYSTEM.md\nx\nE",
        "git push origin main",
        "git push",
        "git push -q origin HEAD:main",
        "git push --all",
    ),
    *("git -C /bot/x/minifram push -q origin HEAD:refs/heads/main", "cat requirements.txt | tee requirements.txt"),
    *("echo a && git push origin x:main", "git push --all", "rm -rf $x infra"),
    *("cp a services.yaml", "nc -U /run/minifram/door.sock < report"),
)
FREE = (
    *(
        "ls infra",
        "cat infra/a.py SYSTEM.md",
        "sed -n 1,9p infra/a.py",
        "grep -rni x infra/ | head",
        "git diff infra",
        "rg -i x infra/",
    ),
    *(
        "git log -p -- spec/x.md",
        "python -m pytest -q tests",
        "git commit -m 'mend infra and spec'",
        "echo x > src/a.py",
    ),
    *("git push -q -u origin better", "git push origin HEAD:better", "cat < infra/a.py > src/a.py", "ls /boot/grub"),
    *("python src/run.py", "echo x > src/a.py", "ls src/infra-notes", "wc infra/a.py > counts.txt"),
)


@each_row("command, is_asked", [*((text, True) for text in ASKED), *((text, False) for text in FREE)])
def test_commands(command: str, is_asked: bool) -> None:
    """As far as words go; what only reads is free, and so is the push of a branch."""
    assert Bench(Path("/nowhere")).asks("bash", command=command) == is_asked


def test_files(tmp_path: Path) -> None:
    """By whatever path and link they are reached; reading is free."""
    (tmp_path / "infra").mkdir()
    (tmp_path / "src").symlink_to(tmp_path / "infra")
    bench = Bench(tmp_path)
    for path in (
        "infra/a.py",
        "./x/../SYSTEM.md",
        "src/a.py",
        "SKILLS/x.md",
        "/bot/b/c/minifram/spec/x",
        ".signal/bootstrap",
    ):
        assert bench.asks("write_file", path=path), path
        assert bench.asks("delete_file", path=path), path
        assert not bench.asks("read_file", path=path), path
    for path in (
        "notes.md",
        "tests/test_x.py",
        "docs/infra/x.md",
        "/tmp/infra/x",
        "/home/x/minifram/agent/bot/main/minifram/src/a.py",
    ):
        assert not bench.asks("write_file", path=path), path
    assert bench.asks("bootstrap", branch="x")
    assert EVIL[0] in bench.asked[0]


def test_the_keep_is_asked_only_when_it_matters(tmp_path: Path) -> None:
    """And untainted work is free."""
    bench = Bench(tmp_path, origins=())
    assert not bench.asks("bash", command="ls")
    assert not bench.asks("bash", command="ls", cwd="src")
    assert bench.looked == 0
    assert not bench.asks("write_file", path="SYSTEM.md")
    assert not bench.asks("bash", command="rm a.py", cwd="infra")
    assert bench.looked == 2


def test_a_rule_of_the_pms_comes_first(tmp_path: Path) -> None:
    """One that allows, allows; one that asks is the one question."""
    allows = Bench(tmp_path, Policy(rules=(Rule("allow", paths=("skills/",)),)))
    assert not allows.asks("write_file", path="skills/x.md")
    assert allows.asks("write_file", path="infra/x.py")
    asks = Bench(tmp_path, Policy(rules=(Rule("ask", effects=("auth",), why="mine"),)))
    assert asks.asks("bootstrap", branch="x")
    assert "mine" in asks.asked[0]
    assert asks.looked == 0


def test_a_long_command_is_looked_through_once(tmp_path: Path) -> None:
    """Time grows with its length, and not with the square of it."""

    def seconds(times: int) -> float:
        bench, began = Bench(tmp_path), time.process_time()
        bench.asks("bash", command="$x " + "git " * times)
        return time.process_time() - began

    assert seconds(16_000) < 1 + 8 * seconds(4000)
