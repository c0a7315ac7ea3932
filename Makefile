# A fresh machine needs make and python3 (3.11 or newer, with its venv module); everything else goes into .venv.
PYTHON ?= python3
# A file is run by one process; tests/workers.py says how many there are, and orders the files.
PYTEST_ARGS ?= -n auto --dist=loadfile --no-loadscope-reorder

# Tests start about a thousand processes. Where Python may not keep what it compiled, each compiles this package again.
export PYTHONDONTWRITEBYTECODE =

SCHEDULES ?= 20000
SESSIONS ?= 1000

VENV := .venv
BIN := $(VENV)/bin
# The peers that Treering is measured beside pin libraries of their own, so they get an environment of their own.
BENCH := .venv-bench
# The site's tools know nothing of the package, and the package nothing of them.
SITE := .venv-docs
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Empty files that say what was installed; they are older than pyproject.toml when that has changed since.
RUNTIME := $(VENV)/.installed-runtime
DEV := $(VENV)/.installed-dev
PEERS := $(BENCH)/.installed
SITE_TOOLS := $(SITE)/.installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test whole check mutants simulate faults matrix interrupts tears kill fuzz upstream bench bench-quick docs clean

help:
	@echo "make demo      write, kill, resume, branch and verify a session in a temporary store"
	@echo "make test      run all tests"
	@echo "make whole     run all tests, and all items of those of which make test runs a sample"
	@echo "make check     lint, formatting, strict types, import contracts"
	@echo "make mutants   remove each rule of the journal in turn; the simulation must notice"
	@echo "make simulate  run 20,000 random schedules; SCHEDULES=1000000 runs more, RECORD=page.md writes it down"
	@echo "make faults    run the tests that cause faults, and write docs/reference/faults.md"
	@echo "make matrix    try each request of each verb with each fault on the wire, which takes half an hour"
	@echo "make interrupts  interrupt each verb behind every call it makes, which takes a quarter of an hour"
	@echo "make tears     tear every line of all samples of other programs at every byte, which takes half an hour"
	@echo "make kill      kill hundreds of processes, and cut the power at thousands of calls"
	@echo "make fuzz      read changed bytes with every decoder for a minute and a half"
	@echo "make upstream  ask pi, oh-my-pi and Claude Code themselves about sessions; npm installs them into .upstream"
	@echo "make bench     measure beside others, three quarters of an hour; bench-quick is less of the same in some minutes"
	@echo "make docs      build the documentation as a site in build/site; a link that leads nowhere ends it"
	@echo "make clean     remove .venv and caches"

demo: $(RUNTIME)
	$(BIN)/treering demo

test: $(DEV)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

whole: $(DEV)
	TREERING_WHOLE=1 $(BIN)/python -m pytest $(PYTEST_ARGS)

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src tests
	$(BIN)/lint-imports
	$(BIN)/python -m tests.facades --check
	$(BIN)/python -m tests.docs.reference --check
	$(BIN)/python -m tests.docs.http --check

mutants: $(DEV)
	$(BIN)/python -m tests.simulation.mutants

simulate: $(DEV)
	$(BIN)/python -m tests.simulation $(SCHEDULES) $(if $(RECORD),--record $(RECORD))

faults: $(DEV)
	TREERING_WHOLE=1 $(BIN)/python -m pytest $(PYTEST_ARGS) --faults-page=docs/reference/faults.md

matrix: $(DEV)
	TREERING_WHOLE=1 TREERING_FAULT_MATRIX=whole $(BIN)/python -m pytest tests/s3faults/test_matrix.py

interrupts: $(DEV)
	TREERING_WHOLE=1 TREERING_INTERRUPTS=whole $(BIN)/python -m pytest $(PYTEST_ARGS) tests/session/test_interrupts.py

tears: $(DEV)
	TREERING_WHOLE=1 TREERING_TEARS=whole $(BIN)/python -m pytest tests/importers/test_torn.py

kill: $(DEV)
	TREERING_WHOLE=1 TREERING_FAULT_ROUNDS=8 $(BIN)/python -m pytest tests/durability

fuzz: $(DEV)
	$(BIN)/python -m tests.fuzz

upstream: $(DEV)
	$(BIN)/python -m tests.upstream.install .upstream
	TREERING_UPSTREAM_SESSIONS=$(SESSIONS) $(BIN)/python -m pytest tests/upstream

bench: $(PEERS)
	$(BENCH)/bin/python -m benchmarks

bench-quick: $(PEERS)
	$(BENCH)/bin/python -m benchmarks --quick

# Strict: links and headings that are not there, and docstrings that cannot be read, end it. Not quiet: that hides them.
docs: $(SITE_TOOLS)
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict --config-file .mkdocs.yml

clean:
	rm -rf $(VENV) $(BENCH) $(SITE) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# Debian and Ubuntu leave ensurepip out of python3, and `python3 -m venv` then leaves half an environment behind.
$(BIN)/python $(BENCH)/bin/python $(SITE)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "treering needs Python 3.11 or newer; name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) cannot make a virtual environment; on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(@:/bin/python=)

$(RUNTIME): pyproject.toml | $(BIN)/python
	$(PIP) --editable .
	@touch $@

# This holds the runtime too, so `make demo` after `make test` installs nothing.
$(DEV): pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[s3,dev]'
	@touch $@ $(RUNTIME)

# Not compiled: most of what the peers bring is never imported, and what is gets compiled by the first round.
$(PEERS): pyproject.toml benchmarks/requirements.txt | $(BENCH)/bin/python
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
		--editable '.[s3]' --requirement benchmarks/requirements.txt
	@touch $@

$(SITE_TOOLS): docs/site/requirements.txt | $(SITE)/bin/python
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --requirement docs/site/requirements.txt
	@touch $@
