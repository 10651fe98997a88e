"""Bugrien & Kent 2005: independent component analysis, an approach to clustering."""
