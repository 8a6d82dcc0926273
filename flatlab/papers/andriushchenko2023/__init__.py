"""andriushchenko2023: A modern look at the relationship between sharpness and generalization."""
