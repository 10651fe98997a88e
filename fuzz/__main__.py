"""Run targets, ``python -m fuzz [TARGET ...]``, each in processes of its own: the fuzzer exits."""

from __future__ import annotations

import argparse
import mmap
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NoReturn

from fuzz import targets
from fuzz.results import Run, add_run, executions_so_far
from fuzz.targets import TARGETS, slug

FOLDER = Path(__file__).parent
FOUND = FOLDER / "found"
"""Inputs that showed a defect, and the inputs so far that reach all that was reached (not in git)."""
LONGEST = 8192  # bytes of an input
# Seconds of processor time for one input. The fuzzer's own limit counts time in which it is paused, too.
TOO_LONG = 30.0


class Hang(BaseException):
    """An input takes too long."""


def follow(modules: Iterable[ModuleType]) -> None:
    """Let the fuzzer see which code of modules is reached."""
    import atheris

    for module in modules:
        classes = [c for c in vars(module).values() if isinstance(c, type)]
        for owner in [module, *(c for c in classes if c.__module__ == module.__name__)]:
            for found in list(vars(owner).values()):
                function = getattr(found, "__func__", found)  # of static and class methods
                if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                    atheris.instrument_func(function)


def work(name: str, n_runs: int, seconds: int) -> NoReturn:
    """Fuzz one target in this process."""
    import atheris

    inputs = targets.inputs(name)
    follow(targets.TARGETS[name].modules())

    def too_long(*_: Any) -> NoReturn:
        raise Hang(f"more than {TOO_LONG:.0f} s of processor time")

    signal.signal(signal.SIGPROF, too_long)
    targets.quiet()
    FOUND.mkdir(exist_ok=True)
    # A process that is killed (no memory left, say) can't tell by which input: it is noted before. The file
    # is never cut short: another process that notes its input there would die of a bus error.
    noted = FOUND / f"{slug(name)}.last"
    noted.touch()
    with noted.open("r+b") as file:
        file.truncate(LONGEST + 8)
        last = mmap.mmap(file.fileno(), LONGEST + 8)
    last[:8] = bytes(8)

    def one(content: bytes) -> None:
        last[: len(content) + 8] = len(content).to_bytes(8, "little") + content
        signal.setitimer(signal.ITIMER_PROF, TOO_LONG)
        targets.call(name, content)

    corpus = FOUND / f"{slug(name)}.corpus"
    corpus.mkdir(exist_ok=True)
    for number, content in enumerate(inputs):
        (corpus / f"seed-{number}").write_bytes(content)
    options = [f"-runs={n_runs}", f"-max_total_time={seconds}", "-rss_limit_mb=3000"]
    options += ["-timeout=3600", "-print_final_stats=1", f"-max_len={LONGEST}"]
    atheris.Setup(
        [sys.argv[0], *options, f"-artifact_prefix={FOUND}/{slug(name)}-", str(corpus)], one
    )
    atheris.Fuzz()
    raise SystemExit


def run(name: str, n_runs: int, seconds: int) -> Run:
    """Fuzz one target in a process of its own, and return what it did and how it ended."""
    limits = ["--runs", str(n_runs), "--seconds", str(seconds)]
    # The files of the process are in memory, where there is such a folder, and go with it.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as scratch, tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "fuzz", *limits, "--work", name],
            stderr=log,
            stdout=log,
            env={**os.environ, "TMPDIR": scratch},
        )
        _, status, usage = os.wait4(process.pid, 0)
        log.seek(0)
        text = log.read().decode(errors="replace")
    code = os.waitstatus_to_exitcode(status)
    # A process that is killed has no last line: what it printed on the way counts.
    counts = re.findall(r"stat::number_of_executed_units: (\d+)|^#(\d+)\s", text, re.MULTILINE)
    executions = max((int(a or b) for a, b in counts), default=0)
    error = None
    if code:
        # The error itself, if Python raised one.
        said = re.findall(r"^(?:fuzz\.targets\.Defect|\w*Error|.*==ERROR).*$", text, re.MULTILINE)
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        error = f"{said[-1]:.200} ({how})" if said else how
        (FOUND / f"{slug(name)}.log").write_text(text)
        _keep_last(name)
    seconds = usage.ru_utime + usage.ru_stime
    return Run(executions, seconds, usage.ru_maxrss // 1024, error)


def _keep_last(name: str) -> None:
    """Keep the last input of a process that ended with an error."""
    content = (FOUND / f"{slug(name)}.last").read_bytes()
    size = int.from_bytes(content[:8], "little")
    (FOUND / f"{slug(name)}-last-{time.time_ns()}").write_bytes(content[8 : 8 + size])


def pack(name: str, most: int = 25_000) -> None:
    """Keep the smallest inputs of the corpus of a target in the repository, so many bytes of them."""
    files = sorted((FOUND / f"{slug(name)}.corpus").iterdir(), key=lambda f: (f.stat().st_size, f))
    with zipfile.ZipFile(FOLDER / "corpus" / f"{slug(name)}.zip", "w", zipfile.ZIP_DEFLATED) as box:
        for number, file in enumerate(files):
            most -= file.stat().st_size + 100  # what an entry takes beside its content
            if most < 0:
                break
            # The same inputs give the same archive.
            box.writestr(zipfile.ZipInfo(f"{number:04d}"), file.read_bytes())


def main() -> int:
    """Fuzz the targets, and write what was found; return the number of those with an error."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help="names of targets; without any, all")
    parser.add_argument("--runs", type=int, default=20_000, help="executions of a process")
    parser.add_argument(
        "--total", type=int, help="processes until there are so many of the code as it is"
    )
    parser.add_argument("--seconds", type=int, default=0, help="time of a process; 0 is no limit")
    parser.add_argument("--jobs", type=int, default=1, help="targets at the same time")
    parser.add_argument("--pack", action="store_true", help="write fuzz/corpus from the last runs")
    parser.add_argument("--replay", action="store_true", help="read fuzz/corpus once, and no more")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.runs, options.seconds)
    if options.replay:
        targets.replay()
        return 0
    names = options.targets or list(TARGETS)
    if options.pack:
        for name in names:
            pack(name)
        return 0
    writing, locks, failed = threading.Lock(), {name: threading.Lock() for name in names}, set()

    def fuzz(name: str) -> None:
        target = TARGETS[name]
        with locks[name]:  # one process of a target at a time
            left = options.runs
            if options.total:
                left = min(left, options.total - executions_so_far(name, target))
            if left <= 0 or name in failed:
                return
            found = run(name, left, options.seconds)
            if found.error:
                failed.add(name)
        with writing:
            print(name, add_run(name, target, found), flush=True)

    # In turns, so that there is something of each target if this is stopped.
    n_turns = -(-options.total // options.runs) if options.total else 1
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(fuzz, names * n_turns))
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
