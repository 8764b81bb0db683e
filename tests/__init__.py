"""The tests: real repositories, processes and sockets, in temporary places."""
