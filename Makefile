# Gatewright's commands. `make` alone lists them. Each sets up what it needs; nothing is done twice.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# Yours to set, on the command line or in the environment.
VENV ?= .venv
# Cluster tests wait for their control plane now and then, so one worker more than two cores pays off; each has its own.
WORKERS ?= 3
# What `make test` runs, and with which further options: make test TESTS=tests/unit PYTEST_ARGS=-x
TESTS ?= tests
PYTEST_ARGS ?=
# Where the plugin's archives will be loaded from, for the krew manifest; {version} and {archive} are filled in.
PLUGIN_URL ?= https://releases.example/gatewright/v{version}/{archive}

PYTHON := $(VENV)/bin/python
LOCKED := $(VENV)/.gatewright-locked
INSTALLED := $(VENV)/.gatewright-installed

UV_COMPILE = $(VENV)/bin/uv pip compile pyproject.toml --generate-hashes --no-emit-index-url --universal --python-version 3.11

##@ Every day

.PHONY: demo
demo: $(INSTALLED) control-plane ## four releases on a local control plane: one promoted, two rolled back, one held until the right person approves it
	@$(PYTHON) -m devcluster.demo

.PHONY: test
test: $(INSTALLED) control-plane chromium ## all tests: unit, property, and on a real control plane (TESTS=, WORKERS=, PYTEST_ARGS=)
	@$(PYTHON) -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS) $(TESTS)

.PHONY: lint
lint: $(INSTALLED) ## style, format, types and the direction of imports
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(VENV)/bin/lint-imports

.PHONY: format
format: $(INSTALLED) ## put the code into the form that lint asks for
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

##@ Generated files

.PHONY: generate
generate: $(INSTALLED) ## write the CRDs, the chart's copy of them, and the reference pages
	$(PYTHON) -m tools.generate

.PHONY: verify
verify: $(INSTALLED) ## fail when a generated file is not what its source says
	$(PYTHON) -m tools.generate --check

##@ Now and then

.PHONY: bench
bench: $(INSTALLED) control-plane ## measure: API calls, seconds to restore, memory, cold start (the figures in docs/reference)
	@for script in tests/bench/bench_*.py; do echo "== $$script"; $(PYTHON) "$$script"; done

.PHONY: bench-verdicts
bench-verdicts: $(INSTALLED) ## how good verdicts are beside the peers' rules, simulated, into docs/explanation/verdict-quality.md (four minutes of one core)
	@$(PYTHON) -m tests.bench.verdicts

.PHONY: plugin
plugin: $(INSTALLED) ## the self-contained kubectl plugin for this machine's system, and its krew manifest, into dist/ (PLUGIN_URL=)
	@$(PYTHON) -m tools.plugin_package --url '$(PLUGIN_URL)'

.PHONY: lock
lock: $(INSTALLED) ## resolve pyproject.toml anew into requirements.lock (all) and requirements-image.lock (what the operator needs)
	$(UV_COMPILE) --group dev -o requirements.lock
	$(UV_COMPILE) --constraint requirements.lock --no-annotate -o requirements-image.lock

.PHONY: clean
clean: ## remove the virtual environment and what tools have cached in this folder (built control-plane programs stay)
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---- what the targets above stand on ----

# API server, etcd and the rest: found, or built once and cached. Says itself what it does and for how long.
.PHONY: control-plane
control-plane: $(INSTALLED)
	@$(PYTHON) -m devcluster build

# The tests of the review page read it in a real browser. As root on Debian and Ubuntu it is installed; elsewhere those tests fail, and say why.
.PHONY: chromium
chromium:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing Chromium for the tests of the review page (a minute) …"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null && exit 0; \
	fi; \
	echo "Chromium is missing, so the tests of the review page will fail: install it (on Debian and Ubuntu: apt-get install chromium)." >&2

$(INSTALLED): $(LOCKED) pyproject.toml
	@$(PYTHON) -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(LOCKED): requirements.lock | $(PYTHON)
	@echo "Installing the locked packages into $(VENV) (about a minute the first time) …"
	@$(PYTHON) -m pip install --quiet --require-hashes -r requirements.lock
	@touch $@

$(PYTHON):
	@for python in $(or $(BASE_PYTHON),python3.14 python3.13 python3.12 python3.11 python3); do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    "$$python" -m venv $(VENV) >/dev/null && exit 0; \
	    rm -rf $(VENV); \
	    echo "$$python cannot make a virtual environment (on Debian and Ubuntu: apt-get install python3-venv)." >&2; exit 1; \
	  fi; \
	done; \
	echo "Gatewright needs Python 3.11 or newer, and no python3 on the PATH is. Install one, or name it: make BASE_PYTHON=/path/to/python3.12" >&2; exit 1
