# Needs make and Python 3.11 or later; everything else goes into .venv, once, until pyproject.toml or constraints.txt change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# a clone is not compiled by pip, and where PYTHONDONTWRITEBYTECODE is set each command would do it again
COMPILE := $(BIN)/python -m compileall -q perfmodel validate
JOBS ?= 2
PYTHON312 ?= python3.12

.PHONY: help demo constants sources test fast test-slow test-engine test-health test-starts attack lint style types format docs bench bench-compare browser lock rehearse clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.validate  ## the README's advice, a what-if, a held-out measurement, a real validation on this CPU
	$(BIN)/perfmodel advise --model qwen3-32b --hardware h100 --tp 2 --context 8k
	$(BIN)/perfmodel whatif --model llama-3.1-8b --hardware h100 --batch 12 --context 32k
	$(BIN)/perfmodel validate compare --held-out --set magicdec --row 3c-13
	$(BIN)/perfmodel validate run cpu-quick

test: style  ## lint, types and tests (all but the slow ones)
	@$(MAKE) --no-print-directory -j 2 types fast

fast: export PYTHONDONTWRITEBYTECODE :=  # pytest keeps what it makes of the asserts
fast: $(VENV)/.dev  ## the tests alone (all but the slow ones)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow"

test-slow: $(VENV)/.dev browser  ## the slow tests: built packages, long runs
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m slow

test-engine: $(VENV)/.dev  ## real engines on this CPU (vLLM, 3 GB in .engine/; llama.cpp, which needs cmake and ninja): their parsers, a calibration, held-out points, a server slowed on purpose; not in CI
	$(BIN)/python -m tests.engine.live .engine
	$(BIN)/python -m tests.engine.health_live .engine
	$(BIN)/python -m tests.engine.starts .engine
	mkdir -p .engine/llamacpp && $(BIN)/python -m tests.engine.llama_live .engine/llamacpp

test-health: $(VENV)/.dev  ## a real vLLM (CPU), healthy and slowed on purpose: validate engine --watch must name the right half; every night
	$(BIN)/python -m tests.engine.health_live .engine

test-starts: $(VENV)/.dev  ## the lines that are printed: vLLM's and SGLang's parsers take them, and vLLM (CPU) starts them on tiny models; every night
	$(BIN)/python -m tests.engine.install .engine
	$(BIN)/python -m tests.engine.lines .engine
	$(BIN)/python -m tests.engine.starts .engine

attack: $(VENV)/.dev  ## hostile inputs, better devices, kills and full disks (11 minutes of processor time); rewrites docs/reliability.md; PARTS="faults" runs some
	nice $(BIN)/python -m tests.attack $(PARTS)

browser:  ## a browser for the explorer's tests, where apt may install one; they skip elsewhere
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
		  apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
		echo "no browser is available: the tests of the explorer in a browser will be skipped"

lint: style  ## ruff and mypy
	@$(MAKE) --no-print-directory types

style: $(VENV)/.dev  ## ruff alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:  ## mypy alone, on links that lay the package out as it is installed, with validate/ inside, and on the tests' programs
	@rm -rf .types && mkdir -p .types/perfmodel
	@ln -s $(CURDIR)/perfmodel/* $(CURDIR)/validate .types/perfmodel/
	@ln -s $(CURDIR)/tests .types/tests
	$(BIN)/mypy

format: $(VENV)/.dev  ## fix with ruff what it can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev  ## regenerate pinned answers, tables, outputs and pictures in docs/, and build the site into site/
	$(BIN)/python -m tests.pinned --write
	$(BIN)/python -m tests.test_terms
	$(BIN)/python tests/queueing/test_numbers.py
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/notebooks.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

constants: $(VENV)/.dev  ## fit the costs of engines and all folds again (2 minutes), then run sources
	$(BIN)/perfmodel validate calibrate engines --write
	$(BIN)/perfmodel validate calibrate llamacpp --write
	$(MAKE) sources

sources: $(VENV)/.dev  ## fit the errors of held-out sources and write the accuracy page (10 minutes)
	$(BIN)/perfmodel validate calibrate sources --write
	$(BIN)/perfmodel validate accuracy --write

bench: $(VENV)/.dev  ## time engine and decoder; rewrites docs/benchmarks.md
	$(BIN)/python benchmarks/engine.py

bench-compare: $(VENV)/.dev  ## time this tree and another commit in turns: make bench-compare BASE=HEAD~1
	bash benchmarks/compare.sh $(BASE)

lock:  ## pin what users' clones (constraints.txt), CI, releases and their tools (by hash) install: the newest that pyproject.toml allows
	rm -rf .lock && python3.11 -m venv .lock
	.lock/bin/python -m pip install --quiet --disable-pip-version-check -e ".[validate,dev,docs]"
	sed -n '/^#/p' constraints.txt > .lock/constraints.txt
	.lock/bin/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' | grep -vE '^(triton|nvidia)' | sort -f >> .lock/constraints.txt
	mv .lock/constraints.txt constraints.txt
	.lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	sed -n '/^#/p' constraints-release.txt > .lock/release.txt
	printf 'build\nhatchling\ntwine\n' | .lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate -c constraints.txt pyproject.toml - >> .lock/release.txt
	mv .lock/release.txt constraints-release.txt
	sed -n '/^#/p' constraints-dev.txt > .lock/dev.txt
	.lock/bin/uv pip compile --quiet --universal --python-version 3.11.5 --generate-hashes --no-header --no-annotate \
		-c constraints.txt --extra validate --extra dev --extra docs pyproject.toml \
		| awk '/^[a-z]/ { kept = !/^(torch|triton|nvidia-|cuda-)/ } kept' >> .lock/dev.txt
	mv .lock/dev.txt constraints-dev.txt
	sed -n '/^#/p' constraints-tools.txt > .lock/tools.txt
	printf 'cyclonedx-bom\npip-audit\n' | .lock/bin/uv pip compile --quiet --universal --python-version 3.12 --generate-hashes \
		--no-header --no-annotate - >> .lock/tools.txt
	mv .lock/tools.txt constraints-tools.txt && rm -rf .lock
	sed -i "s/\"hatchling==[0-9.]*\"/\"$$(grep -o '^hatchling==[0-9.]*' constraints-release.txt)\"/" pyproject.toml

rehearse: build/rehearsal/.made  ## every stage of benchmarks/gpu.sh with the versions of a bare GPU machine (gigabytes)
	PYTHONPATH=$(CURDIR)/build/rehearsal/site bash benchmarks/rehearse.sh $(CURDIR)/build/rehearsal/bin/python

# The packages of such a machine (docs/gpu-todo.md), and next to them the wheels that are copied to it. Such a machine has
# numpy 2.5, with which the interpreter of Triton 3.6.0 fails. The interpreter runs only here, on a CPU, so numpy is 2.3 here.
build/rehearsal/.made:
	$(PYTHON312) -m venv build/rehearsal
	build/rehearsal/bin/pip install -q torch==2.11.0 triton==3.6.0 transformers==5.17.0 'numpy==2.3.*' safetensors \
		pytest hypothesis pandas matplotlib scipy pyyaml click rich
	bash benchmarks/wheels.sh build/rehearsal/bin/python build/rehearsal/wheels
	build/rehearsal/bin/pip install -q --no-index --no-deps --target build/rehearsal/site build/rehearsal/wheels/*.whl
	@touch $@

clean:  ## remove the environment and everything generated
	rm -rf $(VENV) .lock build dist site .types .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "perfmodel needs Python 3.11 or later: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Stamp files: an environment is installed again only when what it is made from has changed.
$(VENV)/.validate: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e ".[validate]"
	$(COMPILE)
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e ".[validate,dev,docs]"
	$(COMPILE)
	@touch $@ $(VENV)/.validate
