"""Whether the derivatives of a network are those of the function that it computes."""
