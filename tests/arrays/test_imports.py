"""Heavy libraries are imported when data of theirs arrives, and can be missing until then."""

import subprocess
import sys

OPTIONAL = ("torch", "dask", "matplotlib", "array_api_strict")

USE = """
import sys
import numpy as np
import scipy.sparse as sp
import clusterica, clusterica.cluster, clusterica.optim, clusterica.ops.assign, clusterica.preprocessing
X = np.random.default_rng(0).standard_normal((40, 3))
white = clusterica.preprocessing.Whitener().fit_transform(X)
clusterica.cluster.KMeans(2, random_state=0).fit(white).predict([white[:9], white[9:]])
clusterica.cluster.KMeans(2, random_state=0).fit(sp.csr_array(white), sample_weight=np.ones(40))
"""

BLOCK = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
"""


def run(code):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )


def test_nothing_optional_is_imported():
    outcome = run(USE + f"print(*sorted(set(sys.modules) & set({OPTIONAL})))")
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.split() == []


def test_nothing_optional_is_needed():
    outcome = run(BLOCK.format(names=OPTIONAL) + USE)
    assert outcome.returncode == 0, outcome.stderr


def test_submodules_are_there_at_first_use():
    code = (
        "import sys, clusterica; assert 'clusterica.images' not in sys.modules; "
        "clusterica.cluster.KMeans, clusterica.images.ImageFeatures; assert 'ica' in dir(clusterica)"
    )
    assert run(code).returncode == 0
    outcome = run("import clusterica; clusterica.nothing")
    assert "module 'clusterica' has no attribute 'nothing'" in outcome.stderr
