"""Scores one run."""
