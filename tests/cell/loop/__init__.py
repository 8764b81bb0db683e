"""The bounded loop and its tools: real files, real commands, real clones; a model of canned replies."""
