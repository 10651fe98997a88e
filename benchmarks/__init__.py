"""Comparisons with other libraries: contenders interleaved in one run, medians and ratios reported."""

import os
import sys

# All contenders have the kernels that OpenBLAS chooses for this processor: with those of an older one,
# scikit-learn and the bare product take up to twice as long. It reads these when NumPy is imported. A
# contender is a process of its own and keeps what it is given: the OpenBLAS of faiss chooses worse.
if "numpy" not in sys.modules and "CLUSTERICA_BENCHMARK" not in os.environ:
    for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(_name, None)
    os.environ["CLUSTERICA_BENCHMARK"] = "1"
