"""Xiao, Zhu & Zhao 2013: kernel reconstruction ICA for sparse representation."""
