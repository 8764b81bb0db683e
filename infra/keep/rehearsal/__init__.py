"""The keep's trial of a version before it may lead: a scene, doors, the candidate's life between them, a verdict. The
watcher knows of all this only `verdict`."""
