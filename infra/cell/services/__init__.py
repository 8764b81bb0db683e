"""What the agent keeps running beside its runs, as `services.yaml` at the top of its checkout declares it; and the end
of everything else that a run leaves behind."""
