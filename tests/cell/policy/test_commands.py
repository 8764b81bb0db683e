"""The plain commands in a text for bash, and what leaves a text in doubt."""

from __future__ import annotations

import shlex
import subprocess

from hypothesis import given
from hypothesis import strategies as st

from infra.cell.policy.gate import MAX_CHARS, MAX_WORDS, forms, read
from tests.shared.rows import each_row

R = "rm x"


@each_row(
    "text",
    [
        *("rm x", "a; rm x", "a && rm x", "a || rm x", "a | rm x", "a |& rm x", "a & rm x", "a\nrm x", " rm\tx "),
        *("2>/dev/null rm x", "> o rm x", "r'm' x", 'r"m" "x"', ">| o rm x", "&>o rm x", "rm x >o 2>&1", "rm<o x"),
        *("/bin/rm x", "sudo -n rm x", "env A=1 rm x", "nohup /bin/rm x", "timeout -k 1 5s rm x", "echo a#b; rm x"),
        *(
            "su -c '/bin/rm x'",
            "env -S 'rm x'",
            "xargs -I {} rm x",
            "find . -exec rm x",
            "echo rm x",
            "echo *.py [a-z]? ~; rm x",
            "a 2>&1; rm x",
            "a &>f; rm x",
        ),
        *("if true; then rm x; fi", "while a; do rm x; done", "command rm x", "time rm x"),
        *("cd a && rm x", "test -f x && rm x", "printf '%s\\n' a *; rm x", "wait 12; rm x", "kill -9 1; rm x"),
    ],
)
def test_a_command_is_seen_wherever_it_stands(text: str) -> None:
    """In lists and pipelines, behind what only starts it, beside redirections, through quotes."""
    assert R in [form for command in read(text) or () for form in forms(command)]


@each_row("text", ["echo 'a; rm x'", 'echo "; rm x"', "echo 'a\nrm x'", "a > 'rm x'"])
def test_what_is_only_text_is_no_command(text: str) -> None:
    """Quotes and the names of files."""
    script = read(text)
    assert script is not None
    assert R not in [form for command in script for form in forms(command)]


@each_row(
    "text",
    [
        *("echo 'a", 'echo "a', "echo $(rm x)", "echo `rm x`", 'echo "$(rm x)"', 'echo "`rm x`"', "$'\\x72m' x"),
        *("(rm x)", "{ rm x; }", "f() { rm x; }", "diff <(rm x) b", "cat <<E\nrm x\nE", "cat <<< rm", "r\\m x"),
        *("! rm x", "case a in a) rm x;; esac"),
        *("A=1 rm x", "$RM x", "echo ${a:-b}", "{rm,x}", "r? x", "/bin/r* x", "# rm x", "a # b", "exec 3<>/dev/tcp/a"),
        *("bash -c 'rm x'", "/bin/sh -c 'rm x'", "eval rm x", "sudo bash -c 'rm x'"),
        *("a >", "a > > b", "a > ; b", "echo \r# ; rm x", "a " * (MAX_WORDS + 1), "'' x"),
        *(">&-rm x", ">& -rm x", "<&-rm x", "2>&-rm x", "a; >&-rm x"),
        *("a" * (MAX_CHARS + 1), "busybox rm x", "echo \"it's $(rm x) it's\""),
    ],
)
def test_what_is_not_plain_is_in_doubt(text: str) -> None:
    """Expansions, groups, compound commands, here-documents, other shells; a text that is too long or has no end."""
    assert read(text) is None


@given(
    st.lists(
        st.lists(st.text("ab '\"\\$`;&|#*\n(){}<>~!=", max_size=6), min_size=1, max_size=3), min_size=1, max_size=3
    )
)
def test_words_are_those_that_bash_would_see(commands: list[list[str]]) -> None:
    """What shlex quotes, bash reads back, and so does this."""
    text = "; ".join(shlex.join(["printf", "%s\\0", *words]) for words in commands)
    said = subprocess.run(["bash", "-c", text], capture_output=True, check=True).stdout
    assert said.decode().split("\0")[:-1] == [word for command in read(text) or () for word in command.words[2:]]
