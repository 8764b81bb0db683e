"""What the model can do: each file is some tools, and `tool.py` carries them out."""
