"""Mathematics of one block of rows: pure functions from a block and parameters to small arrays."""
