"""What a family is given and returns, and many networks and sample sets in one dataset."""
