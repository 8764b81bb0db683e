"""Tests of git as a child process and of the moves on a shared branch, on real repositories in temporary places."""
