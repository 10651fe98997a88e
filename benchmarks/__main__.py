"""Run the CPU comparisons and write their figures: ``python -m benchmarks [--quick]``."""

from benchmarks import ica, images, kmeans, linear, planning, rica, sparse_coding, spherical, tables

if __name__ == "__main__":
    kmeans.main()
    ica.main()
    spherical.main()
    images.main()
    rica.main()
    linear.main()
    sparse_coding.main()
    planning.main()
    tables.main()
