"""Names whose address changes between two look-ups, by the system's resolver, at a public address that is ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.attack("S58")
@pytest.mark.heavy
@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace with addresses of its own takes root")
def test_names_that_turn_private(tmp_path: Path) -> None:
    """What was public at the first look-up and private at the second is not reached; neither is one of several, nor one
    in another form. Each connection looks its name up once, and nobody but the public site was asked. Names that
    nobody answers for 20 s delay neither the others nor the program's end."""
    words = ["unshare", "--net", "--mount", "--propagation=private", sys.executable, "-m", "tests.keep.web_door.apart"]
    done = subprocess.run([*words, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=15, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["came"] == {
        "good beside hanging": "True",
        "good/": "200",
        "good/ok": "200 redirects 1",
        "good/in": "policy_denied",
        "inner/": "policy_denied",
        "mixed/": "policy_denied",
        "mapped/": "policy_denied",
        "here/": "policy_denied",
        "turning/turn": "policy_denied",
        "gone/": "execution_error",
    }
    assert told["names"].count("turning.example") == 2
    assert told["names"].count("good.example") == 5
    hosts = [(host.partition(".")[0], path) for host, path in told["asked"]]
    assert hosts == [("good", "/"), ("good", "/ok"), ("good", "/"), ("good", "/in"), ("turning", "/turn")]
