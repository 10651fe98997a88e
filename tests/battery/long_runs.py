"""Interrupt calls that take minutes: ``python long_runs.py NAME ...`` prints a line of JSON for each of them.

A thread presses Ctrl-C in the middle of the work. Time is that of the processor, over all threads, so that it
does not depend on what else the machine does.
"""

import json
import signal
import sys
import threading
import time
import warnings

import numpy as np
from threadpoolctl import threadpool_info

from clusterica.arrays import active_config, as_rows, map_reduce
from clusterica.cluster import KMeans
from clusterica.dictionaries import KSVD, KernelSparseCoding, SparseCoding
from clusterica.encoders import KernelSparseEncoder, LLCEncoder, OMPEncoder, SparseEncoder
from clusterica.preprocessing import Whitener
from clusterica.rica import RICA

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60_000, 128)).astype(np.float32)
ATOMS = RNG.standard_normal((1600, 128)).astype(np.float32)
UNIT = ATOMS / np.linalg.norm(ATOMS, axis=1, keepdims=True)

# Minutes of work with all rows. A few rows compile the same code.
RUNS = {
    "SparseEncoder": lambda n: SparseEncoder(ATOMS, alpha=5.0).fit(X[:n]).transform(X[:n]),
    "SparseEncoder, dense": lambda n: SparseEncoder(ATOMS, alpha=0.5).fit(X[:n]).transform(X[:n]),
    "KernelSparseEncoder": lambda n: KernelSparseEncoder(UNIT).fit(X[:n]).transform(X[:n]),
    "KernelSparseEncoder, dense": lambda n: (
        KernelSparseEncoder(UNIT, gamma=1.0, sparsity=1e-3).fit(X[:n]).transform(X[:n])
    ),
    "OMPEncoder": lambda n: OMPEncoder(ATOMS, n_nonzero=100).fit(X[:n]).transform(X[:n]),
    "LLCEncoder": lambda n: LLCEncoder(ATOMS, n_neighbors=100).fit(X[:n]).transform(X[:n]),
    "SparseCoding": lambda n: SparseCoding(min(n, 800), alpha=2.0, tol=0.0).fit(X[:n]),
    "KernelSparseCoding": lambda n: KernelSparseCoding(min(n, 800), tol=1e-9).fit(X[:n]),
    "KSVD": lambda n: KSVD(min(n, 800), n_nonzero=20, tol=0.0).fit(X[:n]),
    # So many rows and centres at least that products in bfloat16, which are compiled apart, are compiled too.
    "KMeans": lambda n: KMeans(min(max(n, 40), 2000), n_init=100, tol=0.0).fit(X[: max(n, 300)]),
    "RICA": lambda n: RICA(min(n, 1000), max_iter=10_000, tol=0.0).fit(X[:n]),
}


def blas_threads():
    return [(i["filepath"], i["num_threads"]) for i in threadpool_info() if i["user_api"] == "blas"]


def interrupt_later(pressed):
    """Press Ctrl-C after two seconds of work, and note when, in processor time."""
    main, begun = threading.main_thread().ident, time.process_time()

    def press():
        while time.process_time() - begun < 2:
            time.sleep(0.02)
        pressed.append(time.process_time())
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


def interrupted(name):
    """Return what was found after the call was interrupted."""
    RUNS[name](20)
    before, pressed = blas_threads(), []
    interrupt_later(pressed)
    try:
        RUNS[name](len(X))
    except KeyboardInterrupt:
        # Tasks that still run hold the workers: these answer when the tasks are done.
        map_reduce(lambda block: (block.sum(axis=0),), as_rows(X))
        seconds = (time.process_time() - pressed[0]) / active_config().n_threads
        same = before == blas_threads()
        Whitener().fit(X[:500])
        return {"name": name, "seconds": seconds, "same_blas": same}
    raise AssertionError(f"{name} ended before it was interrupted")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    # A process that was started in the background may have inherited that Ctrl-C is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for run in sys.argv[1:]:
        print(json.dumps(interrupted(run)), flush=True)
