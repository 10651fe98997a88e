"""Files that are either complete or not there: written beside their name, made durable, then renamed."""

from clusterica.files._write import move_file, replacing, sync_file, write_file

__all__ = ["move_file", "replacing", "sync_file", "write_file"]
