"""The tools, one by one."""
