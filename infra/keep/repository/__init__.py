"""Git as a child process, and the operations on a repository that several programs share. The repository is not
trusted: hooks are off, names are checked, calls are limited in time."""
