# Each target makes its own virtual environment in .venv and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Processes are hundreds and import the same modules: bytecode is kept, even where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
SECONDS ?= 60
.PHONY: help check test test-kernels torture oracle lint reproduce
.PHONY: bench bench-pass bench-memory bench-deep clean
.PHONY: docs note dist test-oldest notebooks lint-workflows

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# One stamp for each set of extras; a change of pyproject.toml or constraints.txt installs again. Most of the 19,000
# modules are never imported, and compiling them all takes a minute: each is compiled by its first import.
$(VENV)/.installed-%: pyproject.toml paper/pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet --no-compile --constraint constraints.txt --editable '.[$*]' --editable ./paper
	@touch $@

# Test processes share the cores, so each of them sums with one thread.
PYTEST := PRGD_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

check: lint ## Lint, type-check, and run the tests that are not slow, of parametrised ones one case in four
	$(PYTEST) -q -m "not slow" --one-in 4 $(PYTEST_ARGS)

# Tracing makes Python three times slower. So slow tests, and those marked no_cover, whose lines others run too, run
# first, without it: they also compile the kernels, and a compiler that is traced is slow too. Kernels of Triton run in
# its interpreter there, whose lines the next run adds.
UNTRACED := no_cover or (slow and not cover)
test: $(VENV)/.installed-dev ## Lint, type-check and run all tests, with coverage
	@# Each takes one core.
	$(MAKE) -j2 --output-sync=target lint test-kernels
	$(PYTEST) -m "$(UNTRACED)" $(PYTEST_ARGS)
	$(PYTEST) -m "not ($(UNTRACED))" --cov --cov-append --cov-report= $(PYTEST_ARGS)
	$(BIN)/python -m coverage report --fail-under=95

# Kernels without the compiler, so that coverage sees inside them; NumPy scalars warn of overflow there.
test-kernels: $(VENV)/.installed-dev
	NUMBA_DISABLE_JIT=1 $(PYTEST) -n 0 -q -m kernels -W ignore::RuntimeWarning --cov --cov-report= \
		$(shell grep -rl --include='*.py' mark.kernels tests paper/tests)

torture: $(VENV)/.installed-dev ## Try new adversarial problems, damaged files and regressions for SECONDS on all cores
	$(BIN)/python tests/adversarial/torture.py --seconds $(SECONDS) $(TORTURE_ARGS)

oracle: $(VENV)/.installed-dev ## Compare small regressions with an exact oracle, and separated sets with ridge paths, for SECONDS
	$(BIN)/python tests/adversarial/torture.py --seconds $(SECONDS) --only designs hard-designs paths $(TORTURE_ARGS)

lint: $(VENV)/.installed-dev lint-workflows ## Run ruff and mypy, and check the workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

reproduce: $(VENV)/.installed-report ## Re-run the paper's experiments
	$(BIN)/prgd reproduce

docs: $(VENV)/.installed-docs ## Build the site in docs/_build/html: offline, every example run, warnings are errors
	$(BIN)/python docs/draw_report.py docs/_build/report
	PRGD_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -b html -W --keep-going $(DOCS_ARGS) docs docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html
	$(BIN)/python docs/check_pages.py docs/_build/html

# One text for the site and for print: pandoc reads the MyST source. Debian's packages have all that is needed.
NOTE_TOOLS := pandoc lmodern texlive-latex-recommended texlive-latex-extra texlive-fonts-recommended
note: ## Make docs/_build/note.pdf of docs/note/note.md, by pandoc and LaTeX
	@command -v pandoc > /dev/null && command -v pdflatex > /dev/null || \
		{ echo "make note needs pandoc and pdflatex: apt-get install --no-install-recommends $(NOTE_TOOLS)"; exit 1; }
	@mkdir -p docs/_build
	cd docs/note && pandoc note.md --output ../_build/note.pdf --from markdown-citations-implicit_figures --shift-heading-level-by=-1 \
		--columns=500 --include-in-header preamble.tex --pdf-engine pdflatex --variable documentclass=article \
		--variable fontsize=11pt --variable geometry:a4paper,margin=26mm --variable colorlinks

bench: $(VENV)/.installed-bench ## Race LIBLINEAR, LIBSVM, QP and others on the sets in PRGD_DATA
	$(BIN)/python -m benchmarks.race $(BENCH_ARGS)

bench-pass: $(VENV)/.installed-bench ## One pass over the data against one plain read of it
	$(BIN)/python benchmarks/pass_ratio.py

bench-memory: $(VENV)/.installed-bench ## A fit of a file larger than the memory it is allowed
	$(BIN)/python benchmarks/out_of_core.py

bench-deep: $(VENV)/.installed-deep ## Steps of PRGD on VGG-16 and a transformer against those of its base
	$(BIN)/python benchmarks/deep_step.py $(BENCH_ARGS)

# The schema of workflows comes with check-jsonschema. actionlint, a Go program that is on no index of Python packages
# as a wheel, knows more: it runs too where it is installed.
ACTIONLINT ?= actionlint
lint-workflows: $(VENV)/.installed-dev
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows $(wildcard .github/workflows/*.yml)
	@if command -v $(ACTIONLINT) > /dev/null; then $(ACTIONLINT); else \
		echo "actionlint is not installed: the schema alone was checked."; fi

dist: ## Build wheel and sdist, and try the wheel and every extra in a bare environment
	$(PYTHON) tests/dist/check_dist.py $(DIST_ARGS)

# The oldest versions that pyproject.toml allows have an environment of their own; Python 3.11 is the oldest of all.
OLDEST_PYTHON ?= python3.11
.venv-oldest/.installed: pyproject.toml constraints-oldest.txt
	@test -x .venv-oldest/bin/python || $(OLDEST_PYTHON) -m venv .venv-oldest
	@.venv-oldest/bin/python -m pip --disable-pip-version-check install --quiet --no-compile \
		--constraint constraints-oldest.txt --editable '.[test]' --editable ./paper
	@touch $@

test-oldest: .venv-oldest/.installed ## Run the tests that are not slow with the oldest supported versions
	@# scikit-learn 1.6 passes an option to SciPy 1.16 that is deprecated there.
	PRGD_NUM_THREADS=1 OMP_NUM_THREADS=1 NUMBA_CACHE_DIR=$(CURDIR)/.venv-oldest/kernels .venv-oldest/bin/python -m pytest \
		-n auto --dist worksteal -q -m "not slow" -W "ignore:scipy.optimize:DeprecationWarning" $(PYTEST_ARGS)

notebooks: $(VENV)/.installed-docs ## Make a notebook of every example, and run each in an empty folder
	$(BIN)/python tests/dist/run_notebooks.py --out build/notebooks $(NOTEBOOK_ARGS)

clean: ## Remove the virtual environment and all that was built
	rm -rf $(VENV) .venv-oldest .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis report build dist
	rm -rf docs/_build docs/gallery docs/reference/generated docs/sg_execution_times.rst
