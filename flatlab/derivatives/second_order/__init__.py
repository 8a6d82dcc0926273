"""Products with matrices of second derivatives, and what follows from products."""
