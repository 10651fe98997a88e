"""Run the comparisons and write their figures: ``python -m benchmarks [--quick]``.

Those on a GPU run where there is one, without ``--quick``.
"""

import subprocess
import sys
from importlib.util import find_spec

from benchmarks import ica, images, kmeans, linear, planning, rica, sparse_coding, spherical, tables

ON_GPU = ["kmeans_gpu"], ["images_gpu"], ["ica_gpu"], ["stream_gpu"]
ON_GPU += ["rica", "--device", "cuda"], ["linear", "--device", "cuda"]


def has_gpu() -> bool:
    """Return whether torch finds a CUDA device."""
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


if __name__ == "__main__":
    kmeans.main()
    ica.main()
    spherical.main()
    images.main()
    rica.main()
    linear.main()
    sparse_coding.main()
    planning.main()
    failed = []
    if has_gpu() and "--quick" not in sys.argv:
        # A process for each: the next one finds the memory of the GPU free.
        for name, *options in ON_GPU:
            if subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *options]).returncode:
                failed.append(" ".join([name, *options]))
    tables.main()
    if failed:
        sys.exit(f"failed, with the error above: {', '.join(failed)}")
