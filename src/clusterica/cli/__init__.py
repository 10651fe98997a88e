"""The ``clusterica`` command."""

from clusterica.cli._app import main

__all__ = ["main"]
