"""The parts of the git door: what a push may change, and who hears that main has moved.

`decide` is pure; `inspection` asks git; `door_files` puts the door in front of the bare repository; `mainline`
and `notifier` watch main. What pre-receive needs imports the standard library only: each push waits for it."""
