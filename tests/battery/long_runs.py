"""Start a call that takes minutes, to be interrupted: ``python long_runs.py NAME`` prints what it finds then.

The first line is printed when the work begins, after everything is compiled. After Ctrl-C a line gives the
seconds until all threads have stopped working, whether BLAS has the threads that it had, and whether the next
fit works.
"""

import sys
import time
import warnings

import numpy as np
from threadpoolctl import threadpool_info

from clusterica.arrays import as_rows, map_reduce
from clusterica.cluster import KMeans
from clusterica.dictionaries import KSVD, SparseCoding
from clusterica.encoders import LLCEncoder, OMPEncoder, SparseEncoder
from clusterica.preprocessing import Whitener
from clusterica.rica import RICA

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60_000, 128)).astype(np.float32)
ATOMS = RNG.standard_normal((1600, 128)).astype(np.float32)

# Minutes of work with all rows. A few rows compile the same code.
RUNS = {
    "SparseEncoder": lambda n: SparseEncoder(ATOMS, alpha=5.0).fit(X[:n]).transform(X[:n]),
    "OMPEncoder": lambda n: OMPEncoder(ATOMS, n_nonzero=100).fit(X[:n]).transform(X[:n]),
    "LLCEncoder": lambda n: LLCEncoder(ATOMS, n_neighbors=100).fit(X[:n]).transform(X[:n]),
    "SparseCoding": lambda n: SparseCoding(min(n, 800), alpha=2.0, tol=0.0).fit(X[:n]),
    "KSVD": lambda n: KSVD(min(n, 800), n_nonzero=20, tol=0.0).fit(X[:n]),
    "KMeans": lambda n: KMeans(min(n, 2000), max_iter=10_000, tol=0.0).fit(X[:n]),
    "RICA": lambda n: RICA(min(n, 1000), max_iter=10_000, tol=0.0).fit(X[:n]),
}


def blas_threads():
    return [(i["filepath"], i["num_threads"]) for i in threadpool_info() if i["user_api"] == "blas"]


def main(name):
    warnings.simplefilter("ignore")
    RUNS[name](20)
    before = blas_threads()
    print("started", flush=True)
    try:
        RUNS[name](len(X))
    except KeyboardInterrupt:
        interrupted = time.monotonic()
        # Tasks that still run hold the workers: these answer when the tasks are done.
        map_reduce(lambda block: (block.sum(axis=0),), as_rows(X))
        idle = time.monotonic() - interrupted
        same = before == blas_threads()
        Whitener().fit(X[:500])
        print(f"stopped {idle:.2f} {same}", flush=True)
    else:
        print("finished", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
