"""What random directions tell of networks for which the exact derivatives do not fit."""
