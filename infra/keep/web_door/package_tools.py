"""Where pip, uv and npm of the cell find the way to the package indexes, when there is no other. Pure."""

from __future__ import annotations

from infra.keep.settings import EgressMode

PORT = 3128
"""On loopback. The watcher holds it, so nobody in the cell can take it."""


def port(mode: EgressMode) -> int:
    """Where the web door answers them; 0: nowhere."""
    return PORT if mode == "door" else 0


def environment(mode: EgressMode) -> dict[str, str]:
    """What is added to the environment of everything in the cell. All three tools, and git, read it; pages by http are
    nobody's way to packages, so there is no proxy for them."""
    if not port(mode):
        return {}
    proxy, here = f"http://127.0.0.1:{port(mode)}", "127.0.0.1,localhost,::1"
    return {"HTTPS_PROXY": proxy, "https_proxy": proxy, "NO_PROXY": here, "no_proxy": here}
