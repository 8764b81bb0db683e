"""The parts of the git door: what a push may change, and what a runner asks of the keep.

`decide` is pure; `inspection` asks git; `setup` puts the door in front of the bare repository; `app` answers
requests. What pre-receive needs imports the standard library only: each push waits for it."""
