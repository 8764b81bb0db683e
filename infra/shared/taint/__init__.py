"""Whether the work on the present directives has read the web, and what it left: for the git door, which decides by
that, and for the host, which shows it."""
