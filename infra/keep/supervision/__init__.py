"""Parts of the watcher: `decide` and `restarts` are pure; `world` and what it uses touch the machine."""
