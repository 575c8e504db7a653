# Each target makes its own virtual environment in .venv and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Processes are hundreds and import the same modules: bytecode is kept, even where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
SECONDS ?= 60
.PHONY: help check test test-kernels test-interpreter torture oracle lint reproduce
.PHONY: docs
.PHONY: bench bench-pass bench-memory bench-deep clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# One stamp for each set of extras; a change of pyproject.toml or constraints.txt installs again. Most of the 19,000
# modules are never imported, and compiling them all takes a minute: each is compiled by its first import.
$(VENV)/.installed-%: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet --no-compile --constraint constraints.txt --editable '.[$*]'
	@touch $@

# Test processes share the cores, so each of them sums with one thread.
PYTEST := PRGD_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

check: lint ## Lint, type-check and run the tests that are not slow, in every room
	$(PYTEST) -q -m "not slow" $(PYTEST_ARGS)

# Tracing makes Python three times slower. So slow tests, and those marked no_cover, whose lines others run too, run
# first, without it: they also compile the kernels, and a compiler that is traced is slow too.
UNTRACED := no_cover or (slow and not cover)
test: $(VENV)/.installed-dev ## Lint, type-check and run all tests, with coverage
	@# Each takes one core.
	$(MAKE) -j2 --output-sync=target lint test-kernels test-interpreter
	$(PYTEST) -m "$(UNTRACED)" $(PYTEST_ARGS)
	$(PYTEST) -m "not ($(UNTRACED))" --cov --cov-append --cov-report= $(PYTEST_ARGS)
	$(BIN)/python -m coverage report --fail-under=95

# Kernels without the compiler, so that coverage sees inside them; NumPy scalars warn of overflow there.
test-kernels: $(VENV)/.installed-dev
	NUMBA_DISABLE_JIT=1 $(PYTEST) -n 0 -q -m kernels -W ignore::RuntimeWarning --cov --cov-report= \
		$(shell grep -rl --include='*.py' mark.kernels tests)

# Kernels of Triton in its interpreter, for the same reason. The next run of tests with coverage adds the lines found.
INTERPRETED := $(wildcard tests/*/*_in_interpreter.py)
test-interpreter: $(VENV)/.installed-dev
	for script in $(INTERPRETED); do \
		TRITON_INTERPRET=1 $(BIN)/python -m coverage run -p $$script > /dev/null || exit 1; done

torture: $(VENV)/.installed-dev ## Try new adversarial problems and damaged files for SECONDS on all cores
	$(BIN)/python tests/adversarial/torture.py --seconds $(SECONDS) $(TORTURE_ARGS)

oracle: $(VENV)/.installed-dev ## Compare 20,000 small regressions with an exact oracle, 280 separated sets with ridge paths
	$(BIN)/python tests/separation/oracle_trial.py --designs 20000
	$(BIN)/python tests/separation/ridge_paths.py --sets 280

lint: $(VENV)/.installed-dev ## Run ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

reproduce: $(VENV)/.installed-report ## Re-run the paper's experiments
	$(BIN)/prgd reproduce

docs: $(VENV)/.installed-docs ## Build the site in docs/_build/html: offline, every example run, warnings are errors
	$(BIN)/python docs/draw_report.py docs/_build/report
	PRGD_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -b html -W --keep-going $(DOCS_ARGS) docs docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html

bench: $(VENV)/.installed-bench ## Race LIBLINEAR, LIBSVM, QP and others on the sets in PRGD_DATA
	$(BIN)/python -m benchmarks.race $(BENCH_ARGS)

bench-pass: $(VENV)/.installed-bench ## One pass over the data against one plain read of it
	$(BIN)/python benchmarks/pass_ratio.py

bench-memory: $(VENV)/.installed-bench ## A fit of a file larger than the memory it is allowed
	$(BIN)/python benchmarks/out_of_core.py

bench-deep: $(VENV)/.installed-deep ## Steps of PRGD on VGG-16 and a transformer against those of its base
	$(BIN)/python benchmarks/deep_step.py $(BENCH_ARGS)

clean: ## Remove the virtual environment and all that was built
	rm -rf $(VENV) .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis report build dist
	rm -rf docs/_build docs/gallery docs/reference/generated docs/sg_execution_times.rst
