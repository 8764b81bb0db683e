"""One module for each verb: parse, call one function that returns a value, print it. Each defines `verb`, and
imports what it needs inside it, so that asking for help or for another verb costs nothing."""
