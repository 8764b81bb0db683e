"""A whole agent, from `minifram init` on: real programs, real git; only the model's words are played."""
