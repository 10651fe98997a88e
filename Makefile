# clusterica: the commands of daily work. `make help` lists them.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-all lint typecheck docs bench format clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-plot  ## Learn filters from two photographs, write a page of pictures
	$(BIN)/clusterica demo

test: lint typecheck  ## Style, types, architecture and the quick tests
	$(BIN)/python -m pytest -n 2

test-all: lint typecheck  ## As test, with the slow tests
	$(BIN)/python -m pytest -n 2 -m "not gpu"

lint: $(VENV)/.installed-dev  ## Style and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

typecheck: $(VENV)/.installed-dev  ## Types of src
	$(BIN)/mypy

docs: $(VENV)/.installed-docs  ## Build the documentation into docs/_build/html
	$(BIN)/python -m benchmarks.papers
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench: $(VENV)/.installed-bench  ## Compare with other libraries
	$(BIN)/python -m benchmarks

format: $(VENV)/.installed-dev  ## Rewrite the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove what the tools generate (the environment stays)
	rm -rf build dist docs/_build docs/auto_examples docs/reference/generated docs/sg_execution_times.rst
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests examples docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# An environment that is already there is kept, with whatever else is installed in it (torch, say).
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# One stamp for each extra: installed again when pyproject.toml changes, else a second call is quick.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch $@
