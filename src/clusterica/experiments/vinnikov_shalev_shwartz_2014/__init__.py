"""Vinnikov & Shalev-Shwartz 2014: K-means recovers ICA filters when independent components are sparse."""
