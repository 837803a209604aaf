# The commands of Torch Trace. CI runs these and nothing else; `make help` lists them.
#
# Everything that takes long leaves a file that says what it was made from, so a second run starts at once.
# Problems that a person must solve are raised with $(error): one line, before anything is installed.

PORT ?= 6006
LOGDIR ?= samples
PYTHON ?=
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.stamp-run
DEV := $(VENV)/.stamp-dev
MODULES := frontend/node_modules/.package-lock.json
STATIC := tb_plugin/static/index.html
TORCH := .venv-torch/.stamp
AZURITE := tests/azurite/node_modules/.package-lock.json
SCHEMA := frontend/src/api/payloads.schema.json
PACKAGE := pyproject.toml setup.py constraints.txt
SOURCES := $(shell find frontend/src frontend/public -type f ! -name '*.test.*' 2>/dev/null) \
	$(wildcard frontend/index.html frontend/report.html frontend/vite.config.ts frontend/vite.report.config.ts frontend/tsconfig.json)
# One process per core and one more, eight at most; tests/conftest.py says which tests stay together and which go first.
# Bytecode is written: the many processes that tests start would compile all of the package anew each time.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadscope --no-loadscope-reorder
UNITS := tests/model tests/formats tests/devices tests/views tests/property tests/cli/test_format.py
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt
NPM_FLAGS := --prefer-offline --no-audit --no-fund --loglevel=error

# The first Python that is new enough and can make a virtual environment; looked up once, when first needed.
PYTHON_FOUND = $(eval PYTHON_FOUND := $$(shell for p in $(or $(PYTHON),$(BIN)/python python3 python3.14 python3.13 \
	python3.12 python3.11 python); do "$$$$p" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	>/dev/null 2>&1 && { command -v "$$$$p"; break; }; done))$(PYTHON_FOUND)
PYTHON_SEEN = $(or $(shell $(or $(PYTHON),python3) --version 2>/dev/null),none)
NODE_SEEN = $(or $(shell node --version 2>/dev/null),none)
NODE_OK = $(shell command -v npm >/dev/null && node -e 'const [a, b] = process.versions.node.split("."); \
	console.log(a > 20 || (a == 20 && b >= 19) ? "yes" : "")' 2>/dev/null)
PORT_FREE = $(shell $(PYTHON_FOUND) -c 'import socket, sys; socket.create_server(("127.0.0.1", int(sys.argv[1])))' \
	$(PORT) >/dev/null 2>&1 && echo yes)
# Two wheels of one commit are equal byte for byte.
COMMITTED = $(or $(shell git log -1 --format=%ct 2>/dev/null),315532800)
LOGDIR_OK = $(or $(findstring ://,$(LOGDIR)),$(shell test -e $(LOGDIR) && echo yes))

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo build test test-deep test-torch quick mutants matrix check bench bench-ranks bench-timeline types docs payload-fixtures golden screenshots wheel clean format preflight preflight-demo chromium

help: ## What there is to do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: preflight-demo $(RUN) $(STATIC) ## Start TensorBoard on the samples (PORT=6006 LOGDIR=samples)
	@echo "Torch Trace: http://localhost:$(PORT)/#torch_trace   (Ctrl+C ends it)"
	@PYTHONWARNINGS=ignore exec $(BIN)/tensorboard --logdir "$(LOGDIR)" --port $(PORT) $(ARGS)

build: preflight $(STATIC) ## Build the page into tb_plugin/static

test: preflight $(DEV) $(STATIC) $(AZURITE) chromium ## Install what the tests need and run all of them
	@cd frontend && npm test --silent
	@$(PYTEST) $(ARGS)

test-deep: preflight $(DEV) $(STATIC) $(AZURITE) chromium ## All tests, and in full what make test samples (docs/testing.md); an hour
	@cd frontend && npm test --silent
	@TEST_DEPTH=deep $(PYTEST) $(ARGS)

test-torch: preflight $(TORCH) ## Recording help against the CPU build of PyTorch 2.13, in an environment of its own
	@.venv-torch/bin/python -m pytest tests/torch $(ARGS)

quick: preflight $(DEV) $(MODULES) ## The tests on hand-sized inputs: a minute, while coding (ARGS="tests/model -k nest" for a part)
	@cd frontend && npm test --silent
	@TEST_DEPTH=quick $(PYTEST) $(or $(ARGS),$(UNITS))

mutants: preflight $(DEV) ## Small changes that the tests must notice, 45 minutes; goes on where it stopped (ARGS="--count 10")
	@$(BIN)/python -m tests.mutants $(ARGS)

matrix: preflight $(STATIC) ## The tests with the lowest and the newest dependencies, and other Pythons on PATH (ARGS="--only 3.11-lowest")
	@$(PYTHON_FOUND) -m tests.matrix $(ARGS)

check: preflight $(DEV) $(MODULES) ## Style, types, import rules, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tb_plugin.payloads.export | diff -u $(SCHEMA) - || { echo "The types are out of date: make types"; exit 1; }
	cd frontend && npm run --silent check

format: preflight $(DEV) $(MODULES) ## Let the formatters rewrite the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cd frontend && npm run --silent format

bench: preflight $(DEV) ## Speed and memory beside other tools, three hours (ARGS="--events 1000000 --source v100 h100" for a part)
	@$(BIN)/python -m benchmarks.compare $(ARGS)
	@$(if $(ARGS),:,$(BIN)/python -m benchmarks.ranks)

bench-ranks: preflight $(DEV) ## Runs of 64 to 1,024 ranks: summaries on every engine, the page, HTA (ARGS="--ranks 64 --no-peer")
	@$(BIN)/python -m benchmarks.ranks $(ARGS)

bench-timeline: preflight $(DEV) $(STATIC) chromium ## The timeline at 10 million events in a browser (ARGS="--events 1000000 --peer perfetto --write")
	@$(BIN)/python -m benchmarks.timeline $(ARGS)

types: preflight $(DEV) $(MODULES) ## Write the TypeScript types of the payloads
	$(BIN)/python -m tb_plugin.payloads.export > $(SCHEMA)
	cd frontend && npm run --silent types

payload-fixtures: preflight $(DEV) $(MODULES) ## Record the server's answers for the page's tests (frontend/tests) anew
	@$(BIN)/python -m tests.page_recordings --renew

docs: preflight $(DEV) ## Write the pages of docs/reference from the code
	@$(BIN)/python -m docs.generate

golden: preflight $(DEV) ## Write the expected answers of tests/golden anew; read the diff before a commit
	$(BIN)/python -m tests.golden.rewrite

screenshots: preflight $(DEV) $(STATIC) chromium ## Pictures of every view, light and dark, into screenshots/
	@$(BIN)/python -m tests.browser.screenshots $(ARGS)

wheel: preflight $(DEV) $(STATIC) ## The wheel and the sdist, both with the built page, into dist/
	SOURCE_DATE_EPOCH=$(COMMITTED) $(BIN)/python -m pip wheel --disable-pip-version-check --no-deps --wheel-dir dist .
	SOURCE_DATE_EPOCH=$(COMMITTED) $(BIN)/python setup.py --quiet sdist

clean: ## Remove everything that these commands made
	rm -rf $(VENV) .venv-bench .venv-matrix .venv-torch build dist *.egg-info tb_plugin/static frontend/node_modules tests/azurite/node_modules screenshots \
		.mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find tb_plugin torch_trace_megengine tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

preflight:
	@$(if $(PYTHON_FOUND),:,$(error Torch Trace needs Python 3.11 or newer with venv (found: $(PYTHON_SEEN)); name one with PYTHON=/path/to/python3.11))
	@$(if $(NODE_OK),:,$(error Torch Trace needs Node.js 20.19 or newer with npm to build its page (found: $(NODE_SEEN))))

preflight-demo: preflight
	@$(if $(PORT_FREE),:,$(error Port $(PORT) is taken; choose another one: make demo PORT=6007))
	@$(if $(LOGDIR_OK),:,$(error There is no $(LOGDIR); name a log directory: make demo LOGDIR=path))

chromium: $(DEV)
	@$(BIN)/python -m tests.browser.chromium --install

$(VENV)/pyvenv.cfg:
	@echo "Making a virtual environment in $(VENV) ..."
	@$(PYTHON_FOUND) -m venv $(VENV)

$(RUN): $(PACKAGE) | $(VENV)/pyvenv.cfg
	@echo "Installing the Python package ..."
	@TORCH_TRACE_NO_FRONTEND=1 $(PIP) -e .
	@touch $@

$(DEV): $(PACKAGE) | $(VENV)/pyvenv.cfg
	@echo "Installing the Python package and the tools that check it ..."
	@TORCH_TRACE_NO_FRONTEND=1 $(PIP) -e '.[dev]'
	@touch $(RUN) $@

# PyTorch comes first and by its version: what needs any torch would bring the newest one, with gigabytes for a GPU.
$(TORCH): $(PACKAGE)
	@echo "Installing PyTorch in .venv-torch ..."
	@$(PYTHON_FOUND) -m venv .venv-torch
	@.venv-torch/bin/python -m pip install -qq --disable-pip-version-check torch==2.13.0
	@TORCH_TRACE_NO_FRONTEND=1 .venv-torch/bin/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt \
		-e . pytest hypothesis lightning
	@touch $@

$(MODULES): frontend/package.json frontend/package-lock.json
	@echo "Installing the packages of the page ..."
# npm ci refuses when a registry lacks an optional package of another platform; npm install takes the same locked versions.
	@cd frontend && { npm ci $(NPM_FLAGS) 2>/dev/null || npm install --no-save $(NPM_FLAGS); }
	@touch $@

# The emulator of Azure Blob Storage. Without it the tests that need it are skipped and say so.
$(AZURITE): tests/azurite/package.json
	@echo "Installing Azurite ..."
	@cd tests/azurite && npm install --no-package-lock $(NPM_FLAGS) || echo "Azurite cannot be installed; its tests are skipped."

$(STATIC): $(MODULES) $(SOURCES)
	@echo "Building the page ..."
	@cd frontend && npm run --silent build -- --logLevel warn
	@touch $@
