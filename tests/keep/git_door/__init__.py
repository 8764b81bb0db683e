"""The git door, by real pushes from real clones."""
