"""Try built distributions as a new user would: a fresh environment, the command, a fit, and no extras.

python tests/smoke.py dist
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

FIT = """
import sys
import numpy as np
import clusterica
from clusterica.cluster import KMeans
assert not {"torch", "dask", "matplotlib"} & set(sys.modules)
X = np.random.default_rng(0).standard_normal((500, 4))
assert KMeans(3, random_state=0).fit(X).predict(X).shape == (500,)
"""


def try_distribution(path: Path) -> None:
    """Install one file into an environment of its own and use it."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        scripts = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin")
        pip = [scripts / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, path], check=True)
        subprocess.run([scripts / "python", "-c", FIT], check=True, cwd=folder)
        subprocess.run([scripts / "clusterica", "--version"], check=True, cwd=folder)
        subprocess.run([*pip, f"clusterica[plot] @ {path.absolute().as_uri()}"], check=True)
        subprocess.run([scripts / "clusterica", "demo", "--quick"], check=True, cwd=folder)
        assert (Path(folder) / "clusterica-demo" / "index.html").stat().st_size > 10_000
    print(f"{path.name}: installed, imported, fitted, and the demo made its page")


def main() -> None:
    """Try every wheel and sdist in the folder."""
    found = sorted(Path(sys.argv[1]).glob("clusterica-*"))
    if len(found) != 2:
        sys.exit(
            f"{sys.argv[1]} holds {len(found)} distributions; there must be a wheel and an sdist"
        )
    for path in found:
        try_distribution(path)


if __name__ == "__main__":
    main()
