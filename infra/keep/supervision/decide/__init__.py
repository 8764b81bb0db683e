"""The whole decision, pure: values in, values out. `decision.decide` is the one function that `infra.watcher` calls."""
