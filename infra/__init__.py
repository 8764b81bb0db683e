"""The agent's side: the watcher, the runner and the two doors, each a program of its own."""
