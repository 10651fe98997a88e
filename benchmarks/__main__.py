"""Run the CPU comparisons and write their figures: ``python -m benchmarks [--quick]``."""

from benchmarks import ica, images, kmeans, tables

if __name__ == "__main__":
    kmeans.main()
    ica.main()
    images.main()
    tables.main()
