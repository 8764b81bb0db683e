"""The benchmarks: minifram's figures beside those of its peers, in one run (`make bench`, `python -m bench NAME…`).

Method: whatever is compared is measured in the same run, in rounds that take each of the compared things once and
begin with another of them each time (A B C, B C A, …), so that a machine that slows down slows all of them down.
Moments are read from CLOCK_MONOTONIC, which all processes share: a program that is started writes the moment of its
first statement into a FIFO, so neither polling nor waking up of the bench is part of a figure. What counts is the
ratio of the medians within the run; milliseconds are those of the machine it ran on. Every row says how many rounds
it holds and how far they spread. Everything runs in a temporary directory, without the network: peers are given unix
sockets or none, are started and ended by their pid, and take no settings from the caller's home. A missed goal is
said in plain words and changes no exit code: this is a measurement, not a test."""
