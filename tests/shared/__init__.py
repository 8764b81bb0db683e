"""Tests of the words that the programs share; they start few processes, so that a new version can afford them."""
