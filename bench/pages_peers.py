"""Runs in the peers' environment: reads pages as JSON, and writes what each peer makes of them, with its seconds.

Imports nothing of ours: the peers' Python is not that of minifram."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import trafilatura  # type: ignore[import-not-found]
from lxml.html import fromstring  # type: ignore[import-untyped]
from readability import Document  # type: ignore[import-not-found]


def by_trafilatura(html: str) -> str:
    text: str | None = trafilatura.extract(html, output_format="markdown", include_links=True, include_images=True)
    return text or ""


def by_trafilatura_for_recall(html: str) -> str:
    text: str | None = trafilatura.extract(html, output_format="markdown", favor_recall=True, include_links=True)
    return text or ""


def by_readability(html: str) -> str:
    document = Document(html)
    title: str = document.title()
    return title + "\n" + re.sub(r"\s+", " ", fromstring(document.summary()).text_content())


PEERS = {
    "trafilatura": by_trafilatura,
    "trafilatura, for recall": by_trafilatura_for_recall,
    "readability": by_readability,
}


def main() -> None:
    asked = json.load(sys.stdin)
    made = {}
    for name, peer in PEERS.items():
        made[name] = [_measured(peer, html, asked["rounds"]) for html in asked["pages"]]
    json.dump(made, sys.stdout)


def _measured(peer: Callable[[str], str], html: str, rounds: int) -> dict[str, Any]:
    seconds, text = list[float](), ""
    for _ in range(rounds + 1):
        began = time.perf_counter()
        text = peer(html)
        seconds.append(time.perf_counter() - began)
    return {"text": text, "seconds": seconds[1:]}


if __name__ == "__main__":
    main()
