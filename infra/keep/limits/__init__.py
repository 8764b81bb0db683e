"""Parts of the watcher: when the agent takes too much of the machine. `judge` and `room.choose` are pure; the rest
looks at the machine, or does what was decided."""
