"""The bounded loop and its tools: a conversation with a model in which the model acts. It knows nothing of
directives, reports or boots; the life around it does."""
