"""The host's git held against a repository in which somebody has planted things: each attempt is tried, shown to be
one by plain git, and becomes a row of the table of attacks."""
