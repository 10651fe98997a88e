"""What the compiler makes of the Triton kernels for a Hopper GPU: registers, spills, shared memory.

``python -m benchmarks.kernel_resources`` compiles the assignment kernel for compute capability 9.0 in many
tilings and prints, for each, the registers of a thread, the bytes it spills to memory, the shared memory of a
program and the programs that fit a multiprocessor. Tilings that spill, or fit none, need not be timed.
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from clusterica.ops.gpu import nearest
from clusterica.ops.gpu.tiling import DOT, KernelTiling, chunk_widths

HOPPER = GPUTarget("cuda", 90, 32)
TYPES = {
    "float16": "fp16",
    "screened": "fp16",
    "bfloat16": "bf16",
    "tf32": "fp32",
    "float32": "fp32",
}
# Registers and bytes of shared memory of a multiprocessor, and the warps that it holds at most.
REGISTERS, SHARED, WARPS = 65536, 227 * 1024, 64
TILINGS = [
    KernelTiling(rows, centers, 32, warps, stages)
    for rows, centers, warps, stages in itertools.product(
        (64, 128, 256), (32, 64, 128, 256), (4, 8), (2, 3)
    )
    # Products of a thread: more than 128 leave too few registers for the rest, and fewer than 16 waste it.
    if 16 * 32 * warps <= rows * centers <= 128 * 32 * warps
]


class Resources(NamedTuple):
    """What a kernel needs of a multiprocessor."""

    registers: int
    spilled: int
    shared: int
    programs: int
    matrix_instructions: int


def compile_nearest(d: int, precision: str, tiling: KernelTiling, **flags: Any) -> Resources:
    """Compile the assignment kernel for d features."""
    widths = chunk_widths(d)
    kernel = nearest.nearest_looped if widths is None else nearest.nearest_held
    kind = TYPES[precision]
    signature = {
        "X": "*fp32",
        "C": f"*{kind}",
        "bias": "*fp32",
        "shift": "*fp32",
        "bounds": "*fp32",
    }
    signature |= {"index": "*i32", "n_open": "*i32", "labels": "*i32"}
    signature |= dict.fromkeys(("n", "d", "stride", "c_stride", "n_centers"), "i32")
    constants = {
        "VEC": math.gcd(4, d),
        "BM": tiling.rows,
        "BN": tiling.centers,
        "DOT": DOT.get(precision, "ieee"),
        "PACKED": precision != "float32",
        "HALF": kind != "fp32",
        "SCREEN": precision == "screened",
        "SIGNLESS": flags.get("signless", False),
        "BIASED": not flags.get("signless", False),
        "EVEN": True,
        "SHIFTED": False,
        "INDEXED": False,
    }
    if widths is None:
        constants["WIDTH"] = tiling.features
    else:
        constants |= {f"W{i}": w for i, w in enumerate((*widths, 0, 0, 0)[:4])}
    signature |= dict.fromkeys(constants, "constexpr")
    order = {name: signature[name] for name in kernel.arg_names}
    # Pointers and strides are multiples of 16, as those of tensors and of padded centres are.
    aligned = [i for i, name in enumerate(order) if order[name][0] == "*" or name == "c_stride"]
    source = ASTSource(kernel, order, constants, {(i,): [["tt.divisibility", 16]] for i in aligned})
    options = {"num_warps": tiling.warps, "num_stages": tiling.stages}
    compiled = triton.compile(source, target=HOPPER, options=options)
    return _resources(compiled, tiling)


def _resources(compiled: Any, tiling: KernelTiling) -> Resources:
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder, "kernel.ptx")
        ptx.write_text(compiled.asm["ptx"])
        command = [
            triton.knobs.nvidia.ptxas.path,
            "-v",
            "--gpu-name=sm_90a",
            str(ptx),
            "-o",
            "/dev/null",
        ]
        log = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    registers = int(re.search(r"Used (\d+) registers", log)[1])
    spilled = sum(int(n) for n in re.findall(r"(\d+) bytes spill", log))
    shared = compiled.metadata.shared
    # Registers are given to warps by 256.
    warp = -(-32 * registers // 256) * 256
    fits = min(REGISTERS // (warp * tiling.warps), SHARED // max(shared, 1), WARPS // tiling.warps)
    return Resources(registers, spilled, shared, fits, compiled.asm["ptx"].count("mma_async"))


def main() -> None:
    """Print a line for every tiling."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=108)
    parser.add_argument("--precision", nargs="+", default=["float16", "screened", "tf32"])
    parser.add_argument("--signless", action="store_true")
    options = parser.parse_args()
    for precision, tiling in itertools.product(options.precision, TILINGS):
        try:
            found: Any = compile_nearest(
                options.features, precision, tiling, signless=options.signless
            )
        except RuntimeError as error:  # such as too much shared memory
            found = str(error).partition("\n")[0]
        print(precision, *tiling, found, flush=True)


if __name__ == "__main__":
    main()
