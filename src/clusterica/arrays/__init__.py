"""Where numbers live: namespaces and devices, row blocks, random streams, validation, configuration."""

from clusterica.arrays._config import config_context, get_config, set_config
from clusterica.arrays._namespace import device_of, namespace_of, to_host
from clusterica.arrays._random import as_generator
from clusterica.arrays._rows import Rows, as_rows, shuffled_batches
from clusterica.arrays._validation import (
    Labels,
    check_labels,
    check_model_device,
    check_output_rows,
    check_rows,
    check_weights,
)
from clusterica.arrays._walk import map_reduce, map_rows, map_rows_reduce, worker_pool

__all__ = [
    "Labels",
    "Rows",
    "as_generator",
    "as_rows",
    "check_labels",
    "check_model_device",
    "check_output_rows",
    "check_rows",
    "check_weights",
    "config_context",
    "device_of",
    "get_config",
    "map_reduce",
    "map_rows",
    "map_rows_reduce",
    "namespace_of",
    "set_config",
    "shuffled_batches",
    "to_host",
    "worker_pool",
]
