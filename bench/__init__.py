"""The benchmarks: minifram beside its peers, in one run (`python -m bench NAME...`, a file a figure).

Whatever is compared is measured in the same run, in rounds that take each of the compared things once and begin with
another of them each time: a machine that slows down slows all of them down. What counts is the ratio of the medians
within the run; milliseconds are those of the machine. A program that is started reads CLOCK_MONOTONIC in its first
statement and writes it down, so no waking up of the bench is part of that moment. Everything runs in a temporary
directory on loopback; peers take no settings from the caller's home, and a peer that is not installed is left out."""
