"""The PM's settings, `minifram.yaml`: one schema, one reader that names every problem."""
