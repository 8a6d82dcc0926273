"""What figures show: a module for each way of selecting it, with `frame`, as one pandas table."""
