"""Which checks bear out a statement: run for real, in a checkout with a few files."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.cell.loop.actions import ToolCall
from infra.cell.loop.bash_tool import bash_tool
from infra.cell.loop.interruption import Interruption
from infra.cell.loop.registry import Verdict
from infra.cell.loop.toolbox import Toolbox
from infra.cell.mind.checks import control, named
from infra.cell.mind.claims import Origin
from infra.cell.mind.note_tool import NotesOfRun, note_tool
from infra.cell.mind.notes import NOTE, details_of, origin_of
from infra.cell.policy.gate import gate_of
from infra.shared.policy import Policy, Rule, to_text
from tests.cell.mind.test_note_tool import Noting, found

FILES = {
    "README.md": "# A service\n\nDeploys run by hand.\n",
    "config": "port=8080\nretries: 3\nlog_level=debug\n",
    "Makefile": "test:\n\tpytest -q\ndocs:\n\tsphinx-build docs out\n",
    "src/handlers/web.py": "KEY = os.environ['FOO_KEY']\nTIMEOUT_SECONDS = 30\n",
    "src/app.py": "import handlers\n",
    "version.sh": "echo tool 2.39.5\n",
    "pyproject.toml": "[tool.ruff]\nline-length = 120\n",
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkout")
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


HONEST = [
    ("port", "The port is 8080.", "grep -q 8080 config"),
    ("port", "it listens on port 8080", "grep -qx port=8080 config"),
    ("tool version", "the tool here is version 2.39.5", "sh version.sh | grep -qF 2.39.5"),
    ("API key", "the API key is read from the variable FOO_KEY", "grep -rq FOO_KEY src"),
    ("tests", "make test runs pytest", "grep -q pytest Makefile"),
    ("documentation", "the documentation is built with sphinx", "make -n docs | grep sphinx-build"),
    ("handlers", "The handlers lie in src/handlers", "test -d src/handlers"),
    ("web handler", "the web handler is src/handlers/web.py", "ls src/handlers/web.py"),
    ("linting", "the project uses ruff, set up in pyproject.toml", "grep -q tool.ruff pyproject.toml"),
    ("line length", "lines have at most 120 characters", "grep -q 'line-length = 120' pyproject.toml"),
    ("retries", "a call is tried 3 times", "test $(sed -n 's/retries: //p' config) -eq 3"),
    ("timeout", "requests end after 30 s", "cd src && grep -rqw 30 ."),
    ("bash", "bash is installed", "command -v bash"),
    ("log level", "it logs with log_level=debug", "grep -q log_level=debug config"),
    ("python files", "src holds 2 python files", "test $(find src -name '*.py' | wc -l) = 2"),
]
WEAK = [
    ("deploys", "deploys run at night", "grep -q . README.md"),
    ("deploys", "deploys run at night", "test -d src"),
    ("deploys", "README.md says that deploys run at night", "test -e README.md"),
    ("src", "src holds the billing code", "test -d src"),
    ("src", "src holds 12 handlers", "ls src/handlers"),
    ("port", "the port is 9090", "grep -q . config # 9090"),
    ("port", "the port is 9090", "echo 9090; test -f config"),
    ("port", "the port is 9090", "grep 9090 config | head -3"),
    ("port", "the port is 9090", "grep 9090 config | wc -l"),
    ("port", "the port is 9090", "echo 9090 | grep 9090"),
    ("port", "the port is 9090", "test 9090 -gt 80 && test -f config"),
    ("port", "the port is 9090", "grep -q 9090 config || test -f config"),
    ("port", "the port is 9090", "[ 9090 = 9090 ] && cat config"),
    ("ports", "they are 8080 and 9090", "grep -q 8080 config"),
    ("python", "python is 4.0 here", "python3 -c pass"),
    ("releases", "releases are cut from the branch stable", "ls -la"),
    # What is missing is not seen by a check: true or not, it takes two runs.
    ("jq", "jq-x is not installed", "! command -v jq-x"),
    ("port", "no port 9090 is in use", "! grep -q 9090 config"),
]


@pytest.mark.parametrize(("subject", "statement", "check"), HONEST)
def test_a_check_that_looks_for_what_is_said_bears_it_out(
    checkout: Path, subject: str, statement: str, check: str
) -> None:
    result = Noting(checkout)(subject, statement, check=check)
    assert result.payload.startswith("noted (check)"), result.payload
    details = details_of(found(result))
    assert details
    assert origin_of(details, False, False) is Origin.CHECK


@pytest.mark.parametrize(("subject", "statement", "check"), WEAK)
def test_a_check_that_ends_well_whatever_is_said_is_an_act(
    checkout: Path, subject: str, statement: str, check: str
) -> None:
    """Its words say what is wrong with it, and it may be noted once more."""
    note = Noting(checkout)
    result = note(subject, statement, check=check)
    assert found(result)["exit_status"] == 0
    assert result.payload.startswith("noted (act)"), result.payload
    assert "bears out nothing" in result.payload
    assert note(subject, statement, check=check).ok
    assert "already" in note(subject, statement, check=check).payload


def test_what_is_made_another_is_of_the_same_kind() -> None:
    assert named("port", "The port is 8080.", "nc -z host 18080") == ()
    assert control("nc -z host 8080 && ls Port-8080", ("port", "8080")) == "nc -z host 3535 && ls zqzq-3535"


def test_the_policy_sees_the_second_command_too(checkout: Path) -> None:
    """A check is allowed as it stands; made another, it may be a command that is not."""
    policy = to_text(Policy("allow", rules=(Rule("deny", commands=("grep -q 3*",)),)))

    def toolbox_in(directory: str) -> Toolbox:
        gate = gate_of(policy, directory, lambda *_: Verdict(False, "asked"))
        return Toolbox([bash_tool(directory, 5.0, 1000, Interruption())], gate)

    tool = note_tool(NotesOfRun(), str(checkout), Interruption(), seconds=5.0, toolbox_in=toolbox_in)
    given = {"subject": "port", "statement": "The port is 8080."}
    denied = Toolbox([tool]).call(ToolCall("1", NOTE, given | {"check": "grep -q 8080 config"}))
    allowed = Toolbox([tool]).call(ToolCall("2", NOTE, given | {"check": "grep -qx port=8080 config"}))
    assert denied.payload.startswith("noted (act)")
    assert allowed.payload.startswith("noted (check)")
    assert found(allowed)["control"] == 1
