"""`minifram serve`: a page for the PM, an API for programs and MCP, over what the commands read and do."""
