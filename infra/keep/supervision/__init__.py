"""The watcher: `decide` is pure, `observe` and `act` touch the machine."""
