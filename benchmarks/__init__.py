"""Comparisons with other libraries: contenders interleaved in one run, medians and ratios reported."""
