# The commands of this project. Everything lives in .venv, which is made on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.PHONY: help demo test faults bench lint types format check clean

help:  ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/demo.stamp: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo]' --group dev
	@touch $@ $(VENV)/demo.stamp

demo: $(VENV)/demo.stamp  ## the main job for real, on SQLite; ARGS=--once to end after it
	$(BIN)/relay demo $(ARGS)

test: $(VENV)/dev.stamp  ## every test, on SQLite and on a real PostgreSQL
	$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

faults: $(VENV)/dev.stamp  ## let everything go wrong and print what became of it; ARGS=--short for a short run
	$(BIN)/python -m tests.faults $(ARGS)

bench: $(VENV)/dev.stamp  ## speed, as ratios measured by turns (needs wrk); ARGS="--only drain" for a part
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --group bench
	$(BIN)/python -m bench $(ARGS)

lint: $(VENV)/dev.stamp  ## style and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/dev.stamp  ## the type checker
	$(BIN)/mypy

format: $(VENV)/dev.stamp  ## let ruff put things in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: lint types test  ## style, layers, types and tests; CI also tries the wheel and the demo

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
