"""The front door: measure a network, follow one in training, look at the loss around it."""
