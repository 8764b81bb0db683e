"""Runs in the peers' environment: bm25s over notes as JSON, with a stemmer where there is one; writes ids and seconds.

Imports nothing of ours: the peers' Python is not that of minifram."""

from __future__ import annotations

import json
import sys
import time

import bm25s  # type: ignore[import-not-found]


def main() -> None:
    asked = json.load(sys.stdin)
    began = time.perf_counter()
    tokens = bm25s.tokenize([note["text"] for note in asked["notes"]], stopwords="en", show_progress=False)
    index = bm25s.BM25()
    index.index(tokens, show_progress=False)
    indexed = time.perf_counter() - began
    found, seconds = [], []
    for question in asked["questions"]:
        began = time.perf_counter()
        words = bm25s.tokenize(question, stopwords="en", show_progress=False)
        best, _ = index.retrieve(words, k=asked["best"], show_progress=False)
        seconds.append(time.perf_counter() - began)
        found.append([asked["notes"][int(at)]["id"] for at in best[0]])
    json.dump({"indexed": indexed, "found": found, "seconds": seconds}, sys.stdout)


if __name__ == "__main__":
    main()
