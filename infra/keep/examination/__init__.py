"""The keep's examination of a branch: the keep runs the rehearsal and the tests, and says what it saw. The git door
lets main move to nothing that changes the agent and was not examined."""
