"""Run targets, ``python -m fuzz [--runs N] [TARGET ...]``, each in a process of its own: the fuzzer exits."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path("benchmarks/results/fuzz.json")
FOUND = Path("fuzz/found")


def work(name: str, n_runs: int, seconds: int) -> None:
    """Fuzz one target in this process."""
    import atheris

    # Only what is imported here is followed by the fuzzer: our readers, and what they parse with.
    followed = [
        "clusterica.io",
        "clusterica.datasets",
        "clusterica.cli",
        "scipy.io.wavfile",
        "cyclopts",
        "tarfile",
        "pickle",
        "zipfile",
        "gzip",
    ]
    with atheris.instrument_imports(include=followed):
        from fuzz import targets

    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(targets.TARGETS[name].seeds()):
            Path(corpus, str(number)).write_bytes(seed)
        FOUND.mkdir(exist_ok=True)
        options = [
            f"-runs={n_runs}",
            f"-max_total_time={seconds}",
            "-timeout=60",
            "-rss_limit_mb=4000",
            "-print_final_stats=1",
        ]
        options += ["-max_len=8192", f"-artifact_prefix={FOUND}/", corpus]
        atheris.Setup([sys.argv[0], *options], lambda content: targets.call(name, content))
        atheris.Fuzz()


def main() -> int:
    """Fuzz the targets one after the other, and write what was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help="names of targets; without any, all")
    parser.add_argument("--runs", type=int, default=20_000, help="executions of each target")
    parser.add_argument("--seconds", type=int, default=0, help="at most so long; 0 is no limit")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.runs, options.seconds)
    from fuzz.targets import TARGETS

    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    failed = False
    for name in options.targets or TARGETS:
        limits = ["--runs", str(options.runs), "--seconds", str(options.seconds)]
        command = [sys.executable, "-m", "fuzz", *limits, "--work", name]
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        )
        count = re.search(r"stat::number_of_executed_units: (\d+)", done.stderr)
        seconds = re.search(r"Done \d+ runs in (\d+) second", done.stderr)
        known[name] = {
            "executions": int(count[1]) if count else 0,
            "errors": int(done.returncode != 0),
            "seconds": int(seconds[1]) if seconds else None,
            "commit": commit,
            "date": datetime.now(UTC).date().isoformat(),
        }
        print(name, known[name], flush=True)
        if done.returncode:
            failed = True
            print(f"exit status {done.returncode}\n{done.stderr[-3000:]}", file=sys.stderr)
        RESULTS.write_text(json.dumps(known, indent=2) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
