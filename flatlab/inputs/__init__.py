"""A user's network, samples and loss, made ready: a map of one tensor, and its samples."""
