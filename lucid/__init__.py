"""Fast, accurate, differentiable mean and batch normalization for NumPy arrays."""
