"""The parts of the family `capacity`: what its quantities are, norms of weights, and PAC-Bayes."""
