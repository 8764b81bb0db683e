"""Modules that a library imports and we never use: each takes memory in every process, all the time."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Late(ModuleType):
    """Stands for a module until somebody uses it after all."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # what `import` asks of every module
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def load_when_used(name: str) -> None:
    """Called before the library is imported."""
    sys.modules.setdefault(name, _Late(name))
