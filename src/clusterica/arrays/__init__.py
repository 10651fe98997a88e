"""Where numbers live: namespaces and devices, row blocks, random streams, validation, configuration."""

from clusterica.arrays._config import config_context, get_config, set_config
from clusterica.arrays._namespace import Array, Place, device_of, namespace_of, to_host
from clusterica.arrays._random import as_generator
from clusterica.arrays._rows import Rows, as_rows, shuffled_batches
from clusterica.arrays._schedule import in_order, one_blas_thread
from clusterica.arrays._validation import (
    FloatOutputMixin,
    Labels,
    check_fitted_rows,
    check_labels,
    check_model_device,
    check_output_rows,
    check_rows,
    check_weights,
    warn_user,
)
from clusterica.arrays._walk import (
    block_size,
    map_reduce,
    map_rows,
    map_rows_reduce,
    worker_pool,
    working_memory,
)

__all__ = [
    "Array",
    "FloatOutputMixin",
    "Place",
    "Rows",
    "as_generator",
    "as_rows",
    "block_size",
    "check_fitted_rows",
    "Labels",
    "check_labels",
    "check_model_device",
    "check_output_rows",
    "check_rows",
    "check_weights",
    "config_context",
    "device_of",
    "get_config",
    "in_order",
    "map_reduce",
    "map_rows",
    "map_rows_reduce",
    "namespace_of",
    "one_blas_thread",
    "set_config",
    "shuffled_batches",
    "to_host",
    "warn_user",
    "worker_pool",
    "working_memory",
]
