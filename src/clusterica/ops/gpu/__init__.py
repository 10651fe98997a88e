"""Triton twins of ops for CUDA tensors; the walk chooses them where the configuration asks for them."""
