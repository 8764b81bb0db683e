"""`minifram discover`: the experiment of `discovery/`, run, scored and compared by one command.

Its scripts are run as programs; nothing of them is imported. No agent's container, volume, key, door or directory is
used, and none of these is an agent's."""
