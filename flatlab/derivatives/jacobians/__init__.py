"""Singular values and norms of input Jacobians, of the network and of its layers."""
