"""Where pip, uv and npm of the cell find the package indexes, when the web door's mirror is the only way. Pure."""

from __future__ import annotations

from infra.keep.settings.schema import EgressMode

PORT = 3128
"""On loopback. The watcher holds it, so nobody in the cell can take it."""
HOME = f"http://127.0.0.1:{PORT}"


def port(mode: EgressMode) -> int:
    """Where the web door answers them; 0: nowhere."""
    return PORT if mode == "door" else 0


def environment(mode: EgressMode) -> dict[str, str]:
    """What is added to the environment of everything in the cell. Another index is `HOME/<host>/…` in the same way."""
    if not port(mode):
        return {}
    index = f"{HOME}/pypi.org/simple/"
    return {"PIP_INDEX_URL": index, "UV_DEFAULT_INDEX": index, "NPM_CONFIG_REGISTRY": f"{HOME}/registry.npmjs.org/"}
