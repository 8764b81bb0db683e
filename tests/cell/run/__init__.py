"""Runs, and what is told of them."""
