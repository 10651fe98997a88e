"""``python -m clusterica`` is the ``clusterica`` command."""

from clusterica.cli import main

if __name__ == "__main__":
    main()
