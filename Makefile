# The whole menu of Penstock. Every target sets up what it needs; `make help` explains.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
SEEDS ?= 100
EDGE_SEEDS ?= 100

# Tests and the demo start many processes: each would compile all of Penstock anew.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-live coverage check format bench bench-peers soak mutants audit docs lock dist clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

$(STAMP): pyproject.toml requirements.lock scripts/setup.sh
	@PYTHON="$(PYTHON)" sh scripts/setup.sh "$(VENV)"
	@touch $@

setup: $(STAMP) ## make .venv with everything in it

demo: $(STAMP) ## the story of all mechanisms on real processes, judged message by message (FAST=1: in short)
	@mkdir -p build
	$(BIN)/penstock demo $(if $(filter-out 0,$(FAST)),--fast) --report build/demo.html

test: $(STAMP) ## run all tests but the longest
	@# Three processes on two cores: some tests wait for processes that they started.
	$(BIN)/python -m pytest -n 3 --dist worksteal -m 'not live and not long' --ignore tests/pipeline tests src
	@# One process: the Spark tests share a session, which has both cores. What was skipped, and why, comes last.
	$(BIN)/python -m pytest -rs -m 'not live and not long' tests/pipeline

test-live: $(STAMP) ## run the long tests: simulations, then those on real processes, one after the other
	$(BIN)/python -m pytest -n 2 --dist worksteal -m long tests
	$(BIN)/python -m pytest -m live tests

coverage: $(STAMP) ## how much of the code the tests run, Spark aside: the 30 lowest files and the total
	@mkdir -p build
	$(BIN)/python -m pytest -n 2 -m 'not live' --ignore tests/pipeline --cov --cov-report= tests src
	@$(BIN)/coverage report --sort cover > build/coverage.txt
	@head -n 32 build/coverage.txt && tail -n 2 build/coverage.txt
	@echo 'all files: build/coverage.txt'

check: $(STAMP) ## format, lint, layers, types, tests: what every commit keeps green
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(MAKE) --no-print-directory test

format: $(STAMP) ## let ruff format and mend what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) ## measure, side by side with peers
	$(BIN)/python -m bench

bench-peers: $(STAMP) ## measure beside other brokers, installed if root allows; tables and chart in build/ (QUICK=1: in short)
	@mkdir -p build
	$(BIN)/python -m bench.peers --install $(if $(filter-out 0,$(QUICK)),--quick) --json build/peers.json \
	    --markdown build/peers.md --chart build/peers.png

soak: $(STAMP) ## long fuzzing and campaigns (SEEDS=n; EDGE_SEEDS=n for what comes from outside)
	$(BIN)/python -m bench.soak --seeds $(SEEDS)
	$(BIN)/python -m bench.soak --edges --seeds $(EDGE_SEEDS)
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -n 2 -m hypothesis tests

mutants: $(STAMP) ## put deliberate bugs into copies of the sources; the campaign must find each
	$(BIN)/python -m bench.mutants

audit: $(STAMP) ## see that dependencies are listed, under licences that we accept, and unchanged; ask for advisories
	$(BIN)/python scripts/audit.py

docs: $(STAMP) ## the manual as a web site in site/, with the report of all results
	$(BIN)/penstock overlay settings --markdown > docs/configuration.md
	$(BIN)/mkdocs build --strict --quiet
	@# A figure outside its band is said in the report, and is no reason not to have one.
	$(BIN)/penstock lab report --read docs/results --out site/report.html || test $$? = 1

lock: $(STAMP) ## take the newest versions that pyproject.toml allows, and write them to requirements.lock
	@# For all platforms and every Python from 3.11 on, one version of each package where there is one for all.
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --fork-strategy fewest --all-extras \
	    --group dev --generate-hashes --no-annotate --custom-compile-command 'make lock' \
	    --output-file requirements.lock pyproject.toml
	$(MAKE) --no-print-directory setup
	$(BIN)/python scripts/audit.py --write > docs/dependencies.md

dist: ## build wheel and source archive into dist/, install both into empty environments, and try them
	@PYTHON="$(PYTHON)" sh scripts/dist.sh dist

clean: ## remove everything that can be made again
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
