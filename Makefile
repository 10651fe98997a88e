# clusterica: the commands of daily work. `make help` lists them.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test browser chromium test-all test-lowest test-no-avx512 coverage coverage-summary coverage-torch lint typecheck
.PHONY: docs bench fuzz fuzz-all trust audit licences dist smoke check-tag lock format clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-plot  ## Learn filters from two photographs, write a page of pictures
	$(BIN)/clusterica demo

test: lint typecheck  ## Style, types, architecture and the quick tests
	$(BIN)/python -m pytest -n 2

browser: $(VENV)/.installed-dev chromium  ## The tests of reports in a real browser
	$(BIN)/python -m pytest tests/report/test_browser.py

# On Debian and Ubuntu. Where it can't be installed, the tests say what is missing.
chromium:  ## Install Chromium, unless it or Chrome is there
	@for name in chromium chromium-browser google-chrome; do \
		if command -v $$name > /dev/null; then exit 0; fi; \
	done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		apt-get update -qq && apt-get install -qq -y chromium; \
	else echo "Chromium is not installed, and installing it needs root and apt-get"; fi

test-all: lint typecheck  ## As test, with the slow tests
	$(BIN)/python -m pytest -n 2 -m "not gpu"

test-lowest:  ## The quick tests with the lowest versions that pyproject.toml allows, in .venv-lowest
	[ -d .venv-lowest ] || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet uv
	.venv-lowest/bin/python -m uv pip install --quiet --python .venv-lowest/bin/python \
		--resolution lowest-direct --editable ".[dev]"
	.venv-lowest/bin/python -m pytest -n 2

# Processors without these instructions take other code in clusterica, in NumPy and in BLAS.
test-no-avx512: export NUMBA_CPU_NAME := haswell
test-no-avx512: export NUMBA_CPU_FEATURES := +sse4.2,+avx,+avx2,+fma,+bmi,+bmi2,+popcnt
test-no-avx512: export OPENBLAS_CORETYPE := Haswell
test-no-avx512: $(VENV)/.installed-dev  ## The quick tests as on a processor without AVX-512
	$(BIN)/python -m pytest -n 2

coverage: $(VENV)/.installed-dev  ## The quick tests with coverage, as a page in htmlcov
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term:skip-covered --cov-report=html $(COVERAGE)

coverage-summary:  ## Print the coverage of the last run as a table in Markdown
	@$(BIN)/python -m coverage report --format=markdown --skip-covered

coverage-torch: $(BIN)/python  ## As coverage, with the tests of torch tensors
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch
	# 95.6 % when this was set; what is left is mostly full-size experiments, which need data or a GPU.
	$(MAKE) coverage COVERAGE=--cov-fail-under=95

lint: $(VENV)/.installed-dev  ## Style and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

typecheck: $(VENV)/.installed-dev  ## Types of src
	$(BIN)/mypy

docs: $(VENV)/.installed-docs  ## Build the documentation into docs/_build/html
	$(BIN)/python -m benchmarks.papers
	$(BIN)/python -m benchmarks.trust --page
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench: $(VENV)/.installed-bench  ## Compare with other libraries, on a GPU too if there is one
	$(BIN)/python -m benchmarks

RUNS ?= 20000
TARGETS ?=
fuzz: $(VENV)/.installed-fuzz  ## Fuzz all readers of files; RUNS=50000 TARGETS="idx" for others
	$(BIN)/python -m fuzz --runs $(RUNS) $(TARGETS)

fuzz-all: $(VENV)/.installed-fuzz  ## Fuzz until each reader, as it is, has been executed a million times
	$(BIN)/python -m fuzz --total 1000000 --runs 100000 --jobs 2

trust: $(VENV)/.installed-dev  ## Run the tests behind docs/trust.rst, and write their figures into it
	$(BIN)/python -m benchmarks.trust

audit: $(VENV)/.installed-dev  ## Compare what is installed with known vulnerabilities; needs the network
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/python -m pip_audit --skip-editable

licences: $(VENV)/.installed-dev  ## List the licences of all dependencies in docs/licences.rst
	$(BIN)/python docs/licences.py

dist: $(VENV)/.installed-dev  ## Build the wheel and the sdist into dist
	rm -rf dist
	$(BIN)/python -m build --quiet

smoke: dist  ## Install the wheel and the sdist into fresh environments and try them
	$(BIN)/python tests/smoke.py dist

check-tag:  ## Compare TAG with the version of the package, before a release
	@grep -q '^version = "$(TAG:v%=%)"' pyproject.toml || { echo "$(TAG) is not the version"; exit 1; }

lock: $(VENV)/.installed-dev  ## Write the versions of all development tools to requirements-dev.txt
	$(BIN)/uv pip compile --quiet --universal --no-emit-index-url --no-annotate --extra dev --extra docs \
		--python-version 3.11 --custom-compile-command "make lock" \
		--output-file requirements-dev.txt pyproject.toml

format: $(VENV)/.installed-dev  ## Rewrite the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove what the tools generate (the environment stays)
	rm -rf build dist docs/_build docs/auto_examples docs/reference/generated docs/sg_execution_times.rst
	rm -rf htmlcov .coverage
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests examples docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# An environment that is already there is kept, with whatever else is installed in it (torch, say).
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# One stamp for each extra: installed again when pyproject.toml changes, else a second call is quick.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch $@
