"""What other libraries do, tried: `python -m benchmarks.peers` prints what docs/peers.md shows."""
