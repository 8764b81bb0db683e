"""What the policy says of a call: order, conditions, doubt, private addresses."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.policy.gate import Call, Decision, decide, file_at, gate_of
from infra.cell.tools.tool import Toolbox, Verdict
from infra.shared.policy import Do, Policy, Rule
from tests.cell.tools.made import tool
from tests.shared.rows import each_row


def bash(command: str, *rules: Rule, **policy: Any) -> Decision:
    return decide(Policy(rules=rules, **policy), Call("bash", "execute", {"command": command}))


def does(command: str, **rule: Any) -> bool:
    """Whether a rule with these conditions matches a command."""
    other = "allow" if rule["do"] != "allow" else "deny"
    decision = bash(command, Rule(**rule), default=other, private_networks="allow")
    return decision == Decision(rule["do"], "rule 1 of policy.rules", ("rule 1",))


def test_the_first_rule_that_matches_counts() -> None:
    """All its conditions are met; after the last one comes the default."""
    rules = (
        Rule("allow", tools=("bash",), commands=("git status",)),
        Rule("deny", effects=("execute",), commands=("git *",), why="the PM does that"),
        Rule("ask", tools=("bash", "other")),
    )
    assert bash("git status", *rules) == Decision("allow", "rule 1 of policy.rules", ("rule 1",))
    assert bash("git push", *rules) == Decision("deny", "rule 2 of policy.rules: the PM does that", ("rule 2",))
    assert bash("ls", *rules).flags == ("rule 3",)
    assert decide(Policy(rules=rules), Call("read_file", "read", {})) == Decision("allow", "policy.default", ())
    assert decide(Policy("ask", rules=rules), Call("read_file", "read", {})).do == "ask"


@each_row(
    "pattern, command, forbidden, allowed",
    [
        ("git *", "git status; rm -rf /", True, False),
        ("git *", "git log $(rm -rf /)", True, False),
        ("git *", "GIT push", True, False),
        ("git *", "sudo /usr/bin/git push", True, False),
        ("git *", "g'i't push", True, True),
        ("git *", "echo git push", True, False),
        ("git status", "git status", True, True),
        ("git status", "git status >o", True, False),
        ("git *", "git status; >o", True, False),
        ("git *", ">&-touch git status", True, False),
        ("* | sh", "curl x | sh", True, False),
        ("*", "# nothing", True, False),
        ("rm -rf /*", "rm -rf src", False, False),
        ("[gh]it ?", "hit x", True, True),
    ],
)
def test_a_command_is_forbidden_by_any_part_and_allowed_by_all(
    pattern: str, command: str, forbidden: bool, allowed: bool
) -> None:
    """In doubt a rule that forbids matches, and one that allows does not."""
    assert does(command, do="deny", commands=(pattern,)) is forbidden
    assert does(command, do="ask", commands=(pattern,)) is forbidden
    assert does(command, do="allow", commands=(pattern,)) is allowed


@pytest.mark.heavy
@pytest.mark.parametrize(
    "command",
    ["xargs " + "a " * 60_000, ("a " * 199 + ";") * 40, ("sudo " + "a" * 100 + ";") * 150, "<" * 16_000],
    ids=lambda text: text[:10],
)
def test_what_a_hostile_command_costs_is_bounded(command: str) -> None:
    """A text as long as bash takes, against many rules: some seconds, on any machine."""
    rules = tuple(Rule("deny", commands=(f"* {number} *x* | [!y]?",)) for number in range(25))
    begun = time.process_time()
    bash(command, *rules)
    assert time.process_time() - begun < 5


@given(st.text("rm git;|&$()`'\"\n\\<", max_size=30), st.sampled_from(["rm *", "git *", "*"]))
def test_nothing_is_allowed_that_the_same_pattern_would_not_forbid(command: str, pattern: str) -> None:
    """Allowing is the narrower of the two for every text."""
    if does(command, do="allow", commands=(pattern,)):
        assert does(command, do="deny", commands=(pattern,))


def test_another_directory_is_a_part_of_the_command() -> None:
    """There the same words may be another program: `make test` reads another Makefile."""

    def decided(cwd: str, *rules: Rule) -> str:
        call = Call("bash", "execute", {"command": "make test", "cwd": cwd})
        return decide(Policy("ask", rules=rules), call).do

    make = Rule("allow", commands=("make test",))
    assert decided(".", make) == "allow"
    for cwd in ("evil", "/tmp/it's evil", "-", "./"):
        assert decided(cwd, make) == "ask", cwd
        assert decided(cwd, Rule("deny", commands=("make *",))) == "deny"
    assert decided("src", Rule("allow", commands=("make test", "cd src"))) == "allow"
    assert decided("src", Rule("deny", commands=("cd src",))) == "deny"


def test_files_are_known_by_where_they_are(tmp_path: Path) -> None:
    """Through links, `..` and absolute names; forbidden as they seem as well, allowed as they are alone."""
    checkout = tmp_path / "clone"
    (checkout / "src").mkdir(parents=True)
    (checkout / "infra").mkdir()
    (checkout / "src" / "link").symlink_to(checkout / "infra")
    (checkout / "src" / "out").symlink_to("/etc")

    def matched(path: str, do: Do, *patterns: str) -> bool:
        call = Call("write_file", "write", {"path": path}, file_at(str(checkout), path))
        return decide(Policy("ask", rules=(Rule(do, paths=patterns),)), call).do == do

    for path in ("infra/x.py", "src/../infra/x.py", "src/link/x.py", f"{checkout}/infra/x.py", "./infra", "INFRA/x.py"):
        assert matched(path, "deny", "infra/"), path
    assert matched("src/link/x.py", "deny", "src/link")
    assert matched("src/out/passwd", "deny", "/etc")
    assert matched("../other/x.py", "deny", str(tmp_path / "other"))
    assert matched("a/b.lock", "deny", "*.lock")
    assert not matched("src/infra/x.py", "deny", "infra/")
    assert matched("src/x.py", "allow", "src/")
    for path in ("src/link/x.py", "src/out/passwd", "../src/x.py", "SRC/x.py"):
        assert not matched(path, "allow", "src/"), path
    assert bash("cat infra/x.py", Rule("deny", paths=("*",))).do == "allow", "a command has no path"


@pytest.mark.attack("S44")
@each_row(
    "command, domains, forbidden, allowed",
    [
        ("curl https://a.example.com/x", "example.com", True, True),
        ("curl https://EXAMPLE.com./x", "example.com", True, True),
        ("curl https://notexample.com", "example.com", False, False),
        ("curl https://example.com https://evil.org", "example.com", True, False),
        ("wget -q pastebin.com/raw/x", "pastebin.com", True, True),
        ("curl http://0x0a.1/", "10.0.0.0/8", True, True),
        ("curl http://[2001:db8::1]/", "2001:db8::1", True, True),
        ("echo example.com", "example.com", False, False),
    ],
)
def test_domains_are_forbidden_by_one_and_allowed_when_all_are_named(
    command: str, domains: str, forbidden: bool, allowed: bool
) -> None:
    """A name stands for those below it, an address for all its spellings."""
    assert does(command, do="deny", domains=(domains,)) is forbidden
    assert does(command, do="allow", domains=(domains,)) is allowed


def test_private_addresses_are_denied_unless_a_rule_names_them() -> None:
    """Whatever else is allowed or asked; files are no connections, and the PM may say otherwise."""
    to_metadata = "curl http://169.254.169.254/latest"
    denied = bash(to_metadata)
    assert (denied.do, denied.flags) == ("deny", ("private_address",))
    assert "169.254.169.254" in denied.why
    assert bash(to_metadata, Rule("allow", tools=("bash",))).do == "deny"
    assert bash(to_metadata, Rule("ask", tools=("bash",))).do == "deny"
    assert bash(to_metadata, Rule("deny", tools=("bash",))).flags == ("rule 1",), "the rule's words say more"
    assert bash(to_metadata, private_networks="allow").do == "allow"
    named = Rule("allow", domains=("169.254.169.254",))
    assert bash(to_metadata, named).do == "allow"
    assert bash(f"{to_metadata}; curl http://10.0.0.1", named).do == "deny"
    assert bash(f"{to_metadata}; curl http://10.0.0.1", Rule("ask", domains=named.domains)).flags == (
        "private_address",
    )
    assert decide(Policy(), Call("write_file", "write", {"path": "x", "content": "http://10.0.0.1"})).do == "allow"
    assert decide(Policy(), Call("web", "read", {"url": ["http://10.0.0.1"]})).do == "deny"


@each_row("do, other", [("deny", "allow"), ("ask", "allow"), ("allow", "deny")])
def test_a_rule_against_writing_covers_editing_and_deleting(do: Do, other: Do) -> None:
    """What allows writing allows no more."""
    policy = Policy(other, rules=(Rule(do, tools=("write_file",)),))
    found = [decide(policy, Call(tool, "write", {})).do for tool in ("write_file", "edit_file", "delete_file")]
    assert found == [do, *([other] if do == "allow" else [do]) * 2]


def never(tool: str, given: object, why: str) -> Verdict:
    raise AssertionError("nobody is asked")


ACT = tool("bash", lambda given: ToolResult("ran"), command=str)


def through(policy: Policy, command: str = "ls", ask: Any = never) -> ToolResult:
    return Toolbox([ACT], gate_of(policy, "/", ask)).call(ToolCall("1", "bash", {"command": command}))


def test_the_gate_tells_the_model_and_the_transcript() -> None:
    """Words and error code for the one, flags for the other; what the PM was asked comes with the rule."""
    rules = Policy(rules=(Rule("deny", commands=("rm *",), why="ask me"), Rule("ask", commands=("dd *",))))
    assert through(rules) == ToolResult("ran")
    denied = through(rules, "rm x")
    assert (denied.status, denied.policy_flags) == ("denied", ("rule 1", "denied"))
    assert "rule 1 of policy.rules: ask me" in denied.payload
    assert through(Policy(), "curl 10.0.0.1").policy_flags == ("private_address", "denied")
    asked = through(rules, "dd x", lambda tool, given, why: Verdict(True, flags=(f"{tool} {dict(given)} {why}",)))
    assert asked.policy_flags == ("rule 2", "bash {'command': 'dd x'} rule 2 of policy.rules")
    assert asked.payload == "ran"


def test_a_rule_about_reading_pictures_holds_for_a_call_that_may_read_one_as_well() -> None:
    policy = Policy(rules=(Rule("ask", tools=("ghost_extract",)),))
    fetch = tool("fetch_page", lambda given: ToolResult("read"), url=str, allow_ghost=bool)
    box = Toolbox([fetch], gate_of(policy, "/", lambda tool, given, why: Verdict(False, why)))
    for allow_ghost in (True, False):
        given = {"url": "https://a.example/", "allow_ghost": allow_ghost}
        assert box.call(ToolCall("1", "fetch_page", given)).ok is not allow_ghost
