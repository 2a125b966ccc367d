# `make run` and `make test` are all that a newcomer needs; `make help` lists the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# Twice the cores of a small machine, because tests wait for servers and for each other.
TESTERS ?= 4
# Modules are compiled once, whatever the environment says: the tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: install ## Start Duetime on an embedded database, with a key and a curl line to paste
	@$(BIN)/duetime dev $(ARGS)

.PHONY: install
install: $(VENV)/installed ## Set up .venv with the duetime command in it

.PHONY: test
test: $(VENV)/developing ## Install and start all that the tests need, then run everything
	@$(MAKE) --no-print-directory -j 2 lint servers
	$(BIN)/pytest -n $(TESTERS) --dist worksteal $(ARGS)

.PHONY: test-cluster
test-cluster: servers ## Every fault of nodes and databases on every engine, ten times over, and the longest soak: hours
	$(BIN)/pytest --long tests/cluster tests/events/test_soak.py $(ARGS)

.PHONY: check
check: lint ## The quick part: lint, types, import rules, and the tests that take no time
	$(BIN)/pytest -n $(TESTERS) --dist worksteal -m "not slow and not server" $(ARGS)

.PHONY: lint
lint: $(VENV)/developing ## Lint, strict types, import rules
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: promises
promises: $(VENV)/developing ## Print every promise with the tests that try to break it
	@$(BIN)/python -m tests.promise_list

.PHONY: servers
servers: $(VENV)/developing ## Fetch the database servers that the tests start, into .cache
	@$(BIN)/python -m tests.servers

.PHONY: engine
engine: $(VENV)/developing ## Start a database server and print its URL: make engine NAME=postgres-18
	@$(BIN)/python -m tests.servers $(or $(NAME),$(error which one? make engine NAME=postgres-18))

.PHONY: bench
bench: $(VENV)/developing ## Measure beside the ceilings of this machine: make bench STORE=sqlite
	$(BIN)/python -m bench $(if $(STORE),--store $(STORE)) $(ARGS)

.PHONY: guard
guard: $(VENV)/developing ## Count the work for a timer, and write what the tests hold it to: ARGS=--show only shows
	$(BIN)/python -m tests.guard $(ARGS)

.PHONY: format
format: $(VENV)/developing ## Write the code the way the linter wants it
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: docs
docs: $(VENV)/developing ## Write the tables of the docs that are made from the code
	$(BIN)/python -m duetime.config.reference docs/configuration.md
	$(BIN)/python -m duetime.stores.reference docs/stores.md

.PHONY: lock
lock: $(VENV)/developing ## Pin the newest versions of all dependencies, with hashes
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --python-version 3.11 \
		--no-annotate --no-header --all-extras --output-file requirements/run.txt pyproject.toml
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --python-version 3.11 \
		--no-annotate --no-header --all-extras --output-file requirements/dev.txt \
		pyproject.toml requirements/dev.in

.PHONY: clean
clean: ## Remove the virtual environment and all caches (never the data)
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Duetime needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: requirements/run.txt pyproject.toml | $(VENV)/made
	$(BIN)/pip install --quiet --require-hashes -r requirements/run.txt
	$(BIN)/pip install --quiet --no-deps --editable .
	@touch $@

$(VENV)/developing: requirements/dev.txt $(VENV)/installed
	$(BIN)/pip install --quiet --require-hashes -r requirements/dev.txt
	@touch $@
