"""Engines: clusters that hold chunks of rows, and the walk over the chunks."""

from clusterica.arrays.engines._chunks import ChunkRows, Chunks, Engine, map_chunks, walk_chunks

__all__ = ["ChunkRows", "Chunks", "Engine", "map_chunks", "walk_chunks"]
