"""The sections of ``docs/benchmarks.rst``, each from one results file."""
