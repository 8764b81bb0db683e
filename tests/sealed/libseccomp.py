"""The table of system calls that the runtimes use, asked of the library that they load."""

from __future__ import annotations

import ctypes
import functools

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
UNKNOWN = -1  # other negative numbers: a call of another architecture


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL("libseccomp.so.2")  # podman's runtimes cannot do without it
    library.seccomp_syscall_resolve_num_arch.restype = ctypes.c_void_p
    return library


def number(name: str, architecture: str) -> int:
    """Its number there; negative when it has none."""
    return int(_library().seccomp_syscall_resolve_name_arch(ARCHITECTURES[architecture], name.encode()))


def name(of: int, architecture: str) -> str | None:
    """Which call has this number there."""
    found = _library().seccomp_syscall_resolve_num_arch(ctypes.c_uint32(ARCHITECTURES[architecture]), of)
    if not found:
        return None
    text = ctypes.string_at(found).decode()
    ctypes.CDLL(None).free(ctypes.c_void_p(found))
    return text
