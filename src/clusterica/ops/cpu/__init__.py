"""Compiled twins of ops for NumPy and CSR blocks; same signatures, tested against the reference."""

# Here, so that it listens before any function of this package is compiled.
from clusterica.ops.cpu import compiling as compiling
