# Every target prepares .venv for itself: a machine needs python3 (3.11 to 3.14), make and cc.
# PYTHON=python3.13 picks another interpreter; run `make clean` first if .venv was made with one.

PYTHON ?= python3
# Three more than there are cores: most tests wait for some process.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 3)
ARGS ?=
LOCK_FLAGS ?=

BIN := .venv/bin
# Some tests take half a minute and most a hundredth of a second: whoever is done helps the others.
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
# What `make test` leaves out is marked `long`; campaigns run that too.
CAMPAIGN = UNDERSTUDY_LONG=1 $(PYTEST) -m ""
# Campaigns over trees have limits of their own; else faulthandler would end them after three minutes.
PATIENT = UNDERSTUDY_LONG=1 $(BIN)/python -m pytest -m "" -o faulthandler_timeout=0
# What these campaigns run, `make long` need not run once more.
ELSEWHERE = $(addprefix --ignore=tests/,tree/test_chaos.py tree/test_dag.py faults/test_failover.py)
LOCKED := .venv/.locked
READY := .venv/.ready

SCRATCH := build/native
C_SOURCES := $(wildcard native/*.c)
C_HEADERS := $(wildcard native/*.h)
C_CHECKS := $(wildcard native/tests/test_*.c)
C_FILES := $(C_SOURCES) $(C_HEADERS) $(wildcard native/tests/*.[ch] native/fuzz/*.[ch])
C_WARNINGS := -Wall -Wextra -Wconversion -Wshadow -Wcast-qual -Wmissing-prototypes -Werror
C_STANDS := $(filter-out $(C_CHECKS),$(wildcard native/tests/*.c))
C_STARVED := -Dmalloc=us_starved_malloc -Dcalloc=us_starved_calloc -Drealloc=us_starved_realloc
C_SANITIZE := -std=c11 -g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
C_TIDY := $(patsubst %.c,$(SCRATCH)/tidy/%.ok,$(filter %.c,$(C_FILES)))
FUZZ_SECONDS ?= 10
CHAOS_ROUNDS ?= 400
CHAOS_SECONDS ?= 30
CHAOS_TREE_SECONDS ?= 600
WORLDS ?= 3000
DAG_JOBS ?= 5000

# A command that succeeds if there is a compiler, and says so if there is none.
CC_FOUND = { command -v $(CC) > /dev/null || { echo "$@: no C compiler, native/ is left out"; false; }; }

# The tests are rewritten when they are read, which takes seconds for each worker unless it is kept.
unexport PYTHONDONTWRITEBYTECODE

# pip asks no questions, and says nothing unless something is wrong.
export PIP_NO_INPUT := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP := $(BIN)/python -m pip -qq

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

.PHONY: help setup demo test long chaos dag race hosts worlds power versions cover check format sanitize fuzz docs site bench wheel lock clean

help: ## list the targets
	@echo "usage: make <target>"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

setup: $(READY) ## prepare .venv from requirements.lock

demo: $(READY) ## watch a tree of workers, one killed and one frozen, and their work merged
	@$(BIN)/understudy demo $(ARGS)

test: $(READY) ## run the tests; ARGS="-k fence" is handed to pytest
	@$(PYTEST) $(ARGS)

long: $(READY) ## run the long half of the tests, which make test leaves out
	@UNDERSTUDY_LONG=1 $(PYTEST) -m "long or scaled" $(ELSEWHERE) $(ARGS)

# Kills at random moments, and fairness alone: other tests beside it would be its competitors.
chaos: $(READY) ## kill writers CHAOS_ROUNDS times, crowd them, and storm a tree for CHAOS_TREE_SECONDS
	@UNDERSTUDY_CRASH_ROUNDS=$(CHAOS_ROUNDS) $(CAMPAIGN) tests/faults/test_kill.py tests/faults/test_crash.py \
	    tests/actors/run/test_evidence_process.py $(ARGS)
	@UNDERSTUDY_FAIR_SECONDS=$(CHAOS_SECONDS) $(BIN)/python -m pytest -m "" tests/faults/test_fairness.py $(ARGS)
	@UNDERSTUDY_TREE_SECONDS=$(CHAOS_TREE_SECONDS) $(PATIENT) tests/tree/test_chaos.py $(ARGS)

dag: $(READY) ## work off a graph of DAG_JOBS jobs while a storm blows
	@UNDERSTUDY_DAG_JOBS=$(DAG_JOBS) $(PATIENT) -s tests/tree/test_dag.py $(ARGS)

race: $(READY) ## 8 chain runners and 8 dispatchers on 1,000 steps, some killed and some frozen
	@UNDERSTUDY_RACE_STEPS=1000 UNDERSTUDY_RACE_HANDS=8 $(BIN)/python -m pytest -m "" tests/faults/test_race.py $(ARGS)

hosts: $(READY) ## play every vector through a sidecar and on PostgreSQL, and every trouble of several hosts
	@UNDERSTUDY_EVERY_VECTOR=1 $(CAMPAIGN) tests/authority/sidecar/test_vectors.py \
	    tests/authority/postgres/test_vectors.py $(ARGS)
	@$(CAMPAIGN) tests/faults/test_failover.py tests/faults/test_schedule.py $(ARGS)

worlds: $(READY) ## run WORLDS worlds in each simulator, and as many walks beside the model
	@UNDERSTUDY_SEEDS=$(WORLDS) UNDERSTUDY_WALKS=34 $(CAMPAIGN) tests/authority/test_simulator.py \
	    tests/authority/test_model.py tests/authority/test_job_model.py tests/actors/specs/test_scheduler.py \
	    tests/actors/dispatch/test_issue_simulator.py tests/actors/dispatch/test_job_simulator.py \
	    tests/native/test_kernel.py $(ARGS)

power: $(READY) ## cut the power at every event of a commit, for minutes
	@UNDERSTUDY_POWER_SEEDS=40 $(CAMPAIGN) tests/faults/test_power.py $(ARGS)

versions: wheel ## try the wheel on every other supported Python that is found
	@.ci/versions

cover: $(READY) ## run the tests and report branch coverage
	@$(PYTEST) --cov --cov-report=term-missing:skip-covered $(ARGS)

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
	@echo "check: clang-format"
	@$(BIN)/clang-format --dry-run --Werror $(C_FILES)
	@$(CC_FOUND) || exit 0; echo "check: $(CC) $(C_WARNINGS)"; \
	for file in $(filter %.c,$(C_FILES)); do \
	    $(CC) -std=c11 -O2 -DUS_FUZZ_MAIN $(C_WARNINGS) -c -o /dev/null $$file || exit 1; \
	done
	@echo "check: clang-tidy"
	@$(MAKE) -j "$$(getconf _NPROCESSORS_ONLN)" $(C_TIDY)
	@echo "check: all good"

format: $(READY) ## rewrite the files as check wants them
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .
	@$(BIN)/clang-format -i $(C_FILES)

# What was looked at and is good is not looked at again. The analyzer takes longer than all other
# checks; what it would find in tests, the sanitizers do.
$(SCRATCH)/tidy/%.ok: %.c $(filter %.h,$(C_FILES)) .clang-tidy $(LOCKED)
	@mkdir -p $(@D)
	@$(BIN)/clang-tidy --quiet $(if $(findstring native/,$(<D)),--checks=-clang-analyzer-*) $< -- -std=c11 2> /dev/null
	@touch $@

sanitize: ## run the C tests under ASan and UBSan
	@mkdir -p $(SCRATCH)
	@$(CC_FOUND) || exit 0; for file in $(C_CHECKS); do \
	    program=$(SCRATCH)/$$(basename $$file .c); \
	    $(CC) $(C_SANITIZE) $(C_STARVED) -o $$program $$file $(C_STANDS) $(C_SOURCES) && \
	    $$program || exit 1; \
	done

# libFuzzer where the compiler has it; else the same targets with our own deterministic main.
fuzz: ## feed the JSON reader and the kernel for FUZZ_SECONDS each
	@$(CC_FOUND) || exit 0; for name in json kernel; do \
	    program=$(SCRATCH)/fuzz_$$name; corpus=native/fuzz/corpus_$$name; \
	    mkdir -p $(SCRATCH)/found_$$name; \
	    build="$(CC) $(C_SANITIZE) -o $$program native/fuzz/fuzz_$$name.c native/fuzz/mutate.c \
	        $(C_STANDS) $(C_SOURCES)"; \
	    if $$build -fsanitize=fuzzer 2> /dev/null; then \
	        $$program -max_total_time=$(FUZZ_SECONDS) -max_len=4096 \
	            -artifact_prefix=$(SCRATCH)/ $(SCRATCH)/found_$$name $$corpus || exit 1; \
	    else \
	        { $$build -DUS_FUZZ_MAIN -fsanitize-coverage=trace-pc 2> /dev/null || \
	            $$build -DUS_FUZZ_MAIN; } && $$program $(FUZZ_SECONDS) $$corpus/* || exit 1; \
	    fi; \
	done

docs: $(READY) ## write the generated tables of docs/, and draw the demo
	@$(BIN)/python docs/generate.py
	@$(BIN)/python docs/draw_demo.py

bench: $(READY) ## measure us and our peers; ARGS="--quick" takes a minute
	@$(BIN)/python -m benchmarks $(ARGS)

site: $(READY) ## build the docs as a site into build/site
	@mkdir -p build
	@$(BIN)/mkdocs build --strict --clean 2> build/site.log || { cat build/site.log; exit 1; }
	@echo "site: build/site/index.html"

# Through the sdist, never straight from the tree: a stale build/ must not reach a wheel.
wheel: $(READY) ## build sdist and wheel into dist/
	@rm -rf dist
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
	    --universal --python-version 3.11 --generate-hashes --no-strip-extras \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    --output-file requirements.lock $(LOCK_FLAGS) && \
	echo "lock: $$(grep -c '==' requirements.lock) pins in requirements.lock"

clean: ## remove .venv and everything built
	@rm -rf .venv build dist *.egg-info .coverage .coverage.* htmlcov
	@rm -f authority/_lease*.so
	@rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The package itself is installed without dependencies and without isolation: whatever the lock
# does not name is not fetched. An old library goes first: a build that fails must not leave it.
$(READY): $(LOCKED) pyproject.toml setup.py native/build_ffi.py $(C_SOURCES) $(C_HEADERS)
	@rm -f authority/_lease*.so
	@$(PIP) install --no-index --no-deps --no-build-isolation --editable .
	@$(BIN)/python -c 'from understudy.authority.engine import ffi as n; n.available() or print("setup:", n.why_not())'
	@$(BIN)/python -m compileall -q actors authority contracts surfaces src
	@touch $@

$(LOCKED): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "setup: $(PYTHON) is older than 3.11; try make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || { echo "setup: creating .venv"; $(PYTHON) -m venv .venv; }
	@echo "setup: installing requirements.lock"
	@$(PIP) install --require-hashes --requirement requirements.lock
	@touch $@
