# Needs Python 3.11 or newer (with its venv module) and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_DIR := runs/demo
WORKERS ?= 2

.PHONY: demo test test-all docs lint format bytecode pytest pytest-jax series fuzz clean fuzz-1 fuzz-2 \
  kills-tensorflow kills-jax kills-stages-tensorflow kills-stages-jax faults

demo: $(STAMP)  ## Train the tutorial on real data and show the result.
	$(BIN)/tfaip-train tfaip.scenario.tutorial.full --trainer.output_dir $(DEMO_DIR) --overwrite
	@echo
	@echo 'Where to look next:'
	@echo '  the scenario that was trained    tfaip/scenario/tutorial/full/'
	@echo '  the smallest possible scenario   tfaip/scenario/tutorial/min/'
	@echo '  a skeleton to copy               examples/template/'
	@echo '  how to write your own            docs/scenario.md'
	@echo '  every flag of this command       $(BIN)/tfaip-train tfaip.scenario.tutorial.full --help all'

test: lint pytest pytest-jax  ## The suite on both backends.

test-all: test docs series fuzz  ## The same, the site, and the long series of kills, faults and odd command lines.

# From the beginning: pages that are known from the last time would not be warned of again.
docs: $(STAMP)  ## The documentation as a site in build/docs; a warning, for example of a broken link, is an error.
	@rm -rf build/docs
	$(BIN)/python -m sphinx -q -E -W --keep-going -c docs -b html -d build/doctrees . build/docs

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python tools/structure.py --check

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Thousands of tests start processes, which would each compile the package where Python writes no bytecode; and pytest
# would rewrite the tests again in each of its processes.
unexport PYTHONDONTWRITEBYTECODE
bytecode: $(STAMP)
	@$(BIN)/python -m compileall -q tfaip test examples

pytest: bytecode
	$(BIN)/python -m pytest -q -n $(WORKERS) -m 'not series'

pytest-jax: bytecode
	KERAS_BACKEND=jax $(BIN)/python -m pytest -q -n $(WORKERS) -m 'backend and not series'

# Each command of the kill series and of the tests on JAX is a new interpreter (CONTRIBUTING.md).
series: bytecode
	TFAIP_TEST_GRAPPLER=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m series
	KERAS_BACKEND=jax TFAIP_TEST_START=cold $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m 'backend and series'
	$(MAKE) --no-print-directory faults
	$(MAKE) --no-print-directory -j $(WORKERS) kills-tensorflow kills-jax kills-stages-tensorflow kills-stages-jax

# A minute or two; alone, since it measures how soon workers end.
faults: bytecode
	$(BIN)/python -m test.fault_table

# One after the other in a series; the series at the same time.
kills-tensorflow kills-jax kills-stages-tensorflow kills-stages-jax: export TFAIP_TEST_START = cold
kills-tensorflow kills-jax kills-stages-tensorflow kills-stages-jax: bytecode
kills-tensorflow:
	$(BIN)/python -m test.kill_series --seed 1 --n 12
kills-jax:
	$(BIN)/python -m test.kill_series --seed 2 --n 8 --backend jax
kills-stages-tensorflow:
	$(BIN)/python -m test.kill_series --stages --seed 1 --n 6
kills-stages-jax:
	$(BIN)/python -m test.kill_series --stages --seed 2 --n 4 --backend jax

# 4,000 command lines of trainings, of which 150 are trained; 1,500 of the other commands, of which 50 are run.
fuzz: bytecode
	$(MAKE) --no-print-directory -j $(WORKERS) fuzz-1 fuzz-2

fuzz-1 fuzz-2: fuzz-%: bytecode
	$(BIN)/python -m test.scripts.fuzz_command_lines --seed $* --lines 2000 --train 75 --others 750 --run 25

# The stamp is written last: an installation that was interrupted is taken up again.
$(STAMP): pyproject.toml requirements.txt setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'tfaip needs Python 3.11 or newer, $(PYTHON) is older or missing; try: make PYTHON=python3.12' >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo 'Installing into $(VENV) (some minutes the first time) ...'
	@$(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check --editable '.[tutorial,jax,onnx,parquet,plot,profile,tfrecord,sweep,docs,dev]'
	@touch $@

clean:
	rm -rf $(VENV) $(DEMO_DIR) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
