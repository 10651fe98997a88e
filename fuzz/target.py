"""What a target is: a reader that is called with bytes, valid inputs, and the errors that it may raise."""

from __future__ import annotations

import ast
import atexit
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

# Most executions write a file below it.
ROOT = Path(tempfile.mkdtemp(prefix="fuzz-"))
atexit.register(shutil.rmtree, ROOT, ignore_errors=True)


class Target(NamedTuple):
    """A reader of bytes."""

    run: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    """Returns small valid inputs, and writes the files that stay the same."""
    code: tuple[str, ...]
    """Modules and packages of clusterica that read; the fuzzer is led by what they reach."""
    errors: tuple[type[BaseException], ...]
    """Errors that the documentation names."""
    parsers: tuple[str, ...] = ()
    """Distributions that they read with."""

    follow: tuple[str, ...] = ()
    """Modules of others that parse, and by which the fuzzer is led as well."""

    def modules(self) -> list[ModuleType]:
        """Return all modules by which the fuzzer is led; of packages those that are imported."""
        for name in self.code + self.follow:
            import_module(name)
        wanted = tuple(f"{name}." for name in self.code + self.follow)
        return [m for name, m in list(sys.modules.items()) if f"{name}.".startswith(wanted)]

    def versions(self) -> dict[str, str]:
        """Return the versions of what is read with."""
        return {name: version(name) for name in self.parsers}

    def code_hash(self) -> str:
        """Return a hash of the readers' code, without comments, docstrings and imports, and of versions."""
        digest = hashlib.sha256(repr(self.versions()).encode())
        for name in self.code:
            origin = Path(str(import_module(name).__file__))
            is_package = origin.name == "__init__.py"
            for file in sorted(origin.parent.rglob("*.py")) if is_package else [origin]:
                digest.update(_plain_code(file.read_text(encoding="utf-8")).encode())
        return digest.hexdigest()[:16]


def _plain_code(text: str) -> str:
    """Return code in a form that changes only when what it does may change, beyond the words of errors."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            for word in ast.walk(node):
                if isinstance(word, ast.Constant) and isinstance(word.value, str):
                    word.value = ""
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(body, list):
                body[:] = [one for one in body if not _says_nothing(one)]
    return ast.dump(tree)


def _says_nothing(statement: ast.stmt) -> bool:
    text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return text or isinstance(statement, ast.Import | ast.ImportFrom)


def at(name: str, content: bytes) -> Path:
    """Write a file below the folder of this process, in a folder that is there."""
    path = ROOT / name
    path.write_bytes(content)
    return path


def folder(name: str) -> Path:
    """Create a folder below the folder of this process."""
    path = ROOT / name
    path.mkdir(parents=True, exist_ok=True)
    return path
