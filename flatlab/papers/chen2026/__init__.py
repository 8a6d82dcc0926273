"""chen2026: A simple connection from loss flatness to compressed neural representations."""
