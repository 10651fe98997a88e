"""Compiled twins of ops for NumPy and CSR blocks; same signatures, tested against the reference."""
