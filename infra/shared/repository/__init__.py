"""Git as a child process, and the few moves on a repository that more than one program makes; a leaf beside
`contract`. Nothing here trusts the repository it works on: hooks are off, names are checked, calls end in time."""
