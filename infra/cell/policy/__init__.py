"""The gate before each act of the model: what the PM's policy says of a call. It guards against a model that errs or
was talked into something; a version of the agent that was rewritten to ignore it meets the doors and the firewall."""
