"""Networks that users and studies build themselves: how they are planned, measured and told of."""
