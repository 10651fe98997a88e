"""Where numbers live: namespaces and devices, row blocks, random streams, validation, configuration."""

from clusterica.arrays._config import active_config, config_context, get_config, set_config
from clusterica.arrays._namespace import (
    Array,
    Place,
    device_of,
    is_cpu_tensor,
    is_host_array,
    namespace_of,
    on_torch_device,
    to_host,
    to_like,
    working_dtype,
)
from clusterica.arrays._rows import IterableRows, Rows, as_array, as_rows, shuffled_batches
from clusterica.arrays._schedule import in_order, one_blas_thread
from clusterica.arrays._sklearn import Interval, StrOptions, fit_context
from clusterica.arrays._validation import (
    FloatOutputMixin,
    Labels,
    as_generator,
    check_fitted_rows,
    check_labels,
    check_model_device,
    check_output_rows,
    check_rows,
    check_weights,
    seeds_needed,
    warn_user,
)
from clusterica.arrays._walk import (
    Row,
    block_size,
    map_reduce,
    map_rows,
    map_rows_reduce,
    row_bytes_of,
    working_memory,
)

__all__ = [
    # Arrays and where they are
    "Array",
    "Place",
    "device_of",
    "is_cpu_tensor",
    "is_host_array",
    "namespace_of",
    "on_torch_device",
    "to_host",
    "to_like",
    "working_dtype",
    # Rows and the walk over them
    "IterableRows",
    "Row",
    "Rows",
    "as_array",
    "as_rows",
    "block_size",
    "in_order",
    "map_reduce",
    "map_rows",
    "map_rows_reduce",
    "one_blas_thread",
    "row_bytes_of",
    "shuffled_batches",
    "working_memory",
    # What estimators share
    "FloatOutputMixin",
    "Interval",
    "Labels",
    "StrOptions",
    "as_generator",
    "check_fitted_rows",
    "check_labels",
    "check_model_device",
    "check_output_rows",
    "check_rows",
    "check_weights",
    "fit_context",
    "seeds_needed",
    "warn_user",
    # Settings
    "active_config",
    "config_context",
    "get_config",
    "set_config",
]
