"""Comparisons with other libraries: contenders interleaved in one run, medians and ratios reported."""

import os
import sys

# All contenders have the kernels that OpenBLAS chooses for this processor: with those of an older one,
# scikit-learn and the bare product take up to twice as long. It reads these when NumPy is imported.
if "numpy" not in sys.modules:
    for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(_name, None)
