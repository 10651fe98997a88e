"""Coates & Ng 2012: learning feature representations with K-means."""
