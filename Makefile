# make        set up an isolated environment and run the main job: chen2026 on digits, figures with verdicts
# make papers the same for all papers
# make test   for everyone: set up or reuse it and ask one case of every question; 4 to 8 minutes
# make test-full  before a change is merged: these and all further cases; 10 to 22 minutes (CI does it in two parts)
# make test-all  before a release: these and the long ones: random kills, and a real Slurm where one can be started
# make lint   formatting, types, import rules, workflow lint, prose, and how much there is
# make format  the layout that `make lint` asks for
# make bench  what is fast, as ratios measured in one run
# make peers  what other libraries do, tried; installs those of envs/bench.in, with which `make bench` then compares as well
# make gpu    on a machine with a GPU: the tests that need one, and its benchmark; ten minutes (FAKE=1: without one)
# make site   the site, build/site/index.html, from docs/ and published results
# make lock   resolve envs/*.in again
# make cluster  a grid and a study on a real Slurm that is started here (root, Debian's packages), against a local run
# make faults   what a cluster does to jobs, each on that Slurm, and results on an object store; 20 minutes
#
# make PYTHON=/path/to/python ...   use an environment that already has what envs/requirements.txt lists
# make BASE=python3.13 ...          make the environment with another Python (3.11 to 3.13)

BASE ?= python3
ENV := .venv

ifeq ($(origin PYTHON), undefined)
PYTHON := $(ENV)/bin/python
READY := $(ENV)/ready
CLUSTER := $(ENV)/cluster
PEERS := $(ENV)/bench
endif

.PHONY: all papers test test-full test-all cluster faults lint bench peers gpu site lock format
all: $(READY)
	@$(PYTHON) -m snakemake --logger flatlab
	@$(PYTHON) -m flatlab summary

papers: $(READY)
	@$(PYTHON) -m snakemake --logger flatlab --config papers=all
	@$(PYTHON) -m flatlab summary

test: $(READY)
	@$(PYTHON) -m pytest -n 2 --dist worksteal

test-full: $(READY)
	@$(PYTHON) -m pytest -n 2 --dist worksteal -m "not cluster and not long"

test-all: $(CLUSTER)
	@$(PYTHON) -m pytest -n 2 --dist worksteal -m "not cluster"
	@$(PYTHON) -m pytest -m cluster -rs tests/workflow/cluster

cluster: $(CLUSTER)
	@$(PYTHON) -m pytest -m cluster -rs tests/workflow/cluster/test_slurm.py

faults: $(CLUSTER)
	@$(PYTHON) -m pytest -m cluster -rs tests/workflow/cluster

lint: $(READY)
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m tools.joined build/joined
	@MYPYPATH=build/joined $(PYTHON) -m mypy
	@$(PYTHON) -P -c "import os, sys; from importlinter.cli import lint_imports; \
		os.chdir('build/joined'); sys.exit(lint_imports('../../pyproject.toml'))"
	@$(PYTHON) -m snakefmt --check Snakefile rules
	@$(PYTHON) -m snakemake --lint
	@$(PYTHON) -m tools.count --check
	@$(PYTHON) -m tools.prose

format: $(READY)
	@$(PYTHON) -m ruff format .
	@$(PYTHON) -m snakefmt Snakefile rules

bench: $(READY)
	@$(PYTHON) -m benchmarks

peers: $(PEERS)
	@$(PYTHON) -m benchmarks.peers

# Tests that hang leave time to the benchmark, and all of it ends within ten minutes.
gpu: $(READY)
	@start=$$(date +%s); left() { echo $$(($$1 + start - $$(date +%s))); }; failed=0; \
	$(PYTHON) -m benchmarks.gpu $(if $(FAKE),--fake) --check || exit 1; \
	timeout -s INT -k 10 240 $(PYTHON) -m pytest -v -p no:xdist -W default -m gpu tests/gpu || failed=1; \
	timeout $$(left 595) $(PYTHON) -m benchmarks.gpu $(if $(FAKE),--fake) --budget $$(left 560) || failed=1; \
	exit $$failed

site: $(READY)
	@$(PYTHON) -m sphinx -W --keep-going -q docs build/site
	@echo "Open build/site/index.html"

lock: $(READY)
	@cd envs && for name in uv requirements cluster bench; do \
		../$(ENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
			--no-annotate --no-header $$name.in -o $$name.txt; done

$(ENV)/ready: envs/requirements.txt envs/uv.txt
	@$(BASE) -c 'import sys; sys.exit(not (3, 11, 4) <= sys.version_info < (3, 14))' || \
		{ echo "flatlab needs Python 3.11 (from 3.11.4), 3.12 or 3.13; name one: make BASE=python3.12"; exit 1; }
	@echo "Setting up $(ENV): about 3 GB to download, 6 GB on disk, once."
	$(BASE) -m venv --clear $(ENV)
	@$(ENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r envs/uv.txt
	VIRTUAL_ENV=$(ENV) $(ENV)/bin/uv pip install --require-hashes --compile-bytecode -r envs/requirements.txt
	@VIRTUAL_ENV=$(ENV) $(ENV)/bin/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(ENV)/cluster: $(ENV)/ready envs/cluster.txt
	VIRTUAL_ENV=$(ENV) $(ENV)/bin/uv pip install --quiet --require-hashes --compile-bytecode -r envs/cluster.txt
	@touch $@

$(ENV)/bench: $(ENV)/ready envs/bench.txt
	VIRTUAL_ENV=$(ENV) $(ENV)/bin/uv pip install --quiet --require-hashes --compile-bytecode -r envs/bench.txt
	@touch $@
