# Every target prepares .venv for itself: a machine needs python3 (3.11 or newer), make and cc.
# PYTHON=python3.13 picks another interpreter; run `make clean` first if .venv was made with one.

PYTHON ?= python3
WORKERS ?= auto
ARGS ?=
LOCK_FLAGS ?=

BIN := .venv/bin
READY := .venv/.ready
C_FILES := $(wildcard native/*.c native/*.h)

# pip asks no questions, and says nothing unless something is wrong.
export PIP_NO_INPUT := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP := $(BIN)/python -m pip -qq

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

.PHONY: help setup demo test cover check format docs bench wheel lock clean

help: ## list the targets
	@echo "usage: make <target>"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

setup: $(READY) ## prepare .venv from requirements.lock

demo: $(READY) ## watch two agents want the same thing
	@$(BIN)/understudy demo $(ARGS)

test: $(READY) ## run the tests; ARGS="-k fence" is handed to pytest
	@$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

cover: $(READY) ## run the tests and report branch coverage
	@$(BIN)/python -m pytest -n $(WORKERS) --cov --cov-report=term-missing:skip-covered $(ARGS)

check: $(READY) ## format, lint, types, layers, spelling
	@echo "check: ruff format"
	@$(BIN)/ruff format --check .
	@echo "check: ruff"
	@$(BIN)/ruff check .
	@echo "check: mypy"
	@$(BIN)/mypy
	@echo "check: import-linter"
	@$(BIN)/lint-imports --no-logo
	@echo "check: codespell"
	@$(BIN)/codespell
ifneq ($(C_FILES),)
	@echo "check: clang-format"
	@$(BIN)/clang-format --dry-run --Werror $(C_FILES)
endif
	@echo "check: all good"

format: $(READY) ## rewrite the files as check wants them
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .
ifneq ($(C_FILES),)
	@$(BIN)/clang-format -i $(C_FILES)
endif

docs: $(READY) ## write the generated tables of docs/protocol.md
	@$(BIN)/python docs/generate.py

bench: $(READY) ## run the benchmarks
	@$(BIN)/python benchmarks/run.py $(ARGS)

# Through the sdist, never straight from the tree: a stale build/ must not reach a wheel.
wheel: $(READY) ## build sdist and wheel into dist/
	@rm -rf build dist
	@echo "wheel: sdist, then the wheel from it"
	@$(BIN)/python -m build --no-isolation --outdir dist . > .venv/build.log 2>&1 || { cat .venv/build.log; exit 1; }
	@$(BIN)/check-wheel-contents dist/*.whl
	@ls dist

# uv lives only as long as this recipe; LOCK_FLAGS=--upgrade moves every pin.
lock: ## regenerate requirements.lock
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT && \
	$(PYTHON) -m venv "$$scratch" && \
	"$$scratch/bin/python" -m pip -qq install uv && \
	"$$scratch/bin/uv" pip compile pyproject.toml --extra test --extra dev --quiet \
	    --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    --output-file requirements.lock $(LOCK_FLAGS) && \
	echo "lock: $$(grep -c '==' requirements.lock) pins in requirements.lock"

clean: ## remove .venv and everything built
	@rm -rf .venv build dist *.egg-info .coverage .coverage.* htmlcov
	@rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The package itself is installed without dependencies and without isolation: whatever the lock
# does not name is not fetched.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "setup: $(PYTHON) is older than 3.11; try make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || { echo "setup: creating .venv"; $(PYTHON) -m venv .venv; }
	@echo "setup: installing requirements.lock"
	@$(PIP) install --require-hashes --requirement requirements.lock
	@$(PIP) install --no-index --no-deps --no-build-isolation --editable .
	@touch $@
