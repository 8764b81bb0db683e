"""The examinations are whole: each file that they name is there, and what is left out has a reason."""

from __future__ import annotations

import ast

import pytest

from tests.faults.examination import FILES, NOT_RUN
from tests.sealed import held
from tests.table import TESTS


@pytest.mark.parametrize("name", [*FILES, *held.FILES])
def test_each_file_of_an_examination_has_tests(name: str) -> None:
    """One that was moved or renamed would leave the whole table unprinted."""
    path, _, chosen = name.partition("::")
    files = sorted((TESTS / path).glob("test_*.py")) if (TESTS / path).is_dir() else [TESTS / path]
    assert files
    found = [
        item.name for file in files for item in ast.parse(file.read_text()).body if isinstance(item, ast.FunctionDef)
    ]
    assert [each for each in found if each.startswith("test_")]
    assert not chosen or chosen in found


def test_what_is_not_run_has_a_reason() -> None:
    """Nobody is left to guess."""
    assert all(fault and len(why) > 40 for fault, why in NOT_RUN)
