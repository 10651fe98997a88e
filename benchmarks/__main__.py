"""Run the CPU comparisons and write their figures: ``python -m benchmarks [--quick]``."""

from benchmarks import ica, images, kmeans, rica, spherical, tables

if __name__ == "__main__":
    kmeans.main()
    ica.main()
    spherical.main()
    images.main()
    rica.main()
    tables.main()
