"""Tests of the PM's command: real repositories, real processes, a stand-in for the watcher alone."""
