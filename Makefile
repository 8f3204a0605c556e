# Needs Python 3.11 or newer (with its venv module) and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Written last: an installation that was interrupted is taken up again.
DEMO_STAMP := $(VENV)/.installed-demo
STAMP := $(VENV)/.installed
DEMO_DIR := runs/demo
WORKERS ?= 2

.PHONY: demo test test-all series docs lint format bytecode pytest pytest-jax pytest-all pytest-series faults kills \
  kills-tensorflow kills-jax kills-series kills-series-tensorflow kills-series-jax kills-series-stages-tensorflow \
  kills-series-stages-jax fuzz fuzz-series fuzz-series-1 fuzz-series-2 clean

demo: $(DEMO_STAMP)  ## Train the tutorial on real data and show what it predicts.
	@rm -f $(DEMO_DIR)/predictions.npz $(DEMO_DIR)/digits.png
	$(BIN)/tfaip-train tfaip.scenario.tutorial.full --trainer.output_dir $(DEMO_DIR) --overwrite
	$(BIN)/tfaip-predict --export_dir $(DEMO_DIR)/best --dump $(DEMO_DIR)/predictions.npz --dump_inputs \
	  --predict.include_targets True
	@echo
	@$(BIN)/python tools/show_digits.py $(DEMO_DIR)/predictions.npz $(DEMO_DIR)/digits.png
	@echo
	@echo 'Where to look next:'
	@echo '  the scenario that was trained    tfaip/scenario/tutorial/full/'
	@echo '  the smallest possible scenario   tfaip/scenario/tutorial/min/'
	@echo '  a skeleton to copy               examples/template/'
	@echo '  how to write your own            docs/scenario.md'
	@echo '  every flag of the training       $(BIN)/tfaip-train tfaip.scenario.tutorial.full --help all'
	@echo 'What to type next:'
	@echo '  train on, up to epoch 30         $(BIN)/tfaip-resume-training $(DEMO_DIR) --trainer.epochs 30'
	@echo '  list the runs                    $(BIN)/tfaip-runs $(patsubst %/,%,$(dir $(DEMO_DIR)))'

BEGIN := $(shell date +%s)
SHOW_TIME = @echo "make $@: $$(($$(date +%s) - $(BEGIN))) s"

test: lint pytest pytest-jax  ## The quick suite: TensorFlow, and on JAX what a backend computes or stores.
	$(SHOW_TIME)

test-all: lint docs pytest-all faults kills fuzz  ## As in CI: the site, all but the long series, some kills, faults, odd command lines.
	$(SHOW_TIME)

series: pytest-series faults kills-series fuzz-series  ## Before a release: the long series.
	$(SHOW_TIME)

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

QUICK := not slow and not series

pytest: bytecode
	$(BIN)/python -m pytest -q -n $(WORKERS) -m '$(QUICK)'

pytest-jax: bytecode
	KERAS_BACKEND=jax $(BIN)/python -m pytest -q -n $(WORKERS) -m 'backend and $(QUICK)'

pytest-all: bytecode
	$(BIN)/python -m pytest -q -n $(WORKERS) --strict-times -m 'not series'
	KERAS_BACKEND=jax $(BIN)/python -m pytest -q -n $(WORKERS) -m 'backend and not series'

# Each command of the tests on JAX is a new interpreter (CONTRIBUTING.md).
pytest-series: bytecode
	TFAIP_TEST_GRAPPLER=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m series
	KERAS_BACKEND=jax TFAIP_TEST_START=cold $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m 'backend and series'

# A minute or two; alone, since it measures how soon workers end.
faults: bytecode
	$(BIN)/python -m test.fault_table

# Trainings that are killed, one after the other in a series; the series at the same time. Each command is a new interpreter.
KILL := TFAIP_TEST_START=cold $(BIN)/python -m test.kill_series

kills: bytecode
	$(MAKE) --no-print-directory -j $(WORKERS) kills-tensorflow kills-jax

kills-tensorflow: bytecode
	$(KILL) --seed 1 --n 6 --settings workers buckets LAV schedules stages program

kills-jax: bytecode
	$(KILL) --seed 2 --n 3 --settings "averages and accumulation" "within epochs" stages --backend jax

# 30 trainings on each backend.
kills-series: bytecode
	$(MAKE) --no-print-directory -j $(WORKERS) $(addprefix kills-series-,tensorflow jax stages-tensorflow stages-jax)

kills-series-tensorflow kills-series-jax: kills-series-%: bytecode
	$(KILL) --seed 1 --n 22 --backend $*

kills-series-stages-tensorflow kills-series-stages-jax: kills-series-stages-%: bytecode
	$(KILL) --stages --seed 2 --n 8 --backend $*

FUZZ := $(BIN)/python -m test.fuzz_command_lines

fuzz: bytecode
	$(FUZZ) --lines 400 --train 8 --others 150 --run 4

# 4,000 command lines of trainings, of which 150 are trained; 1,500 of the other commands, of which 50 are run.
fuzz-series: bytecode
	$(MAKE) --no-print-directory -j $(WORKERS) fuzz-series-1 fuzz-series-2

fuzz-series-1 fuzz-series-2: fuzz-series-%: bytecode
	$(FUZZ) --seed $* --lines 2000 --train 75 --others 750 --run 25

$(DEMO_STAMP): pyproject.toml requirements.txt setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'tfaip needs Python 3.11 or newer, $(PYTHON) is older or missing; try: make PYTHON=python3.12' >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo 'Installing about 60 packages into $(VENV) (2 minutes the first time) ...'
	@$(BIN)/python tools/install.py tutorial
	@touch $@

# After those of the demo.
$(STAMP): $(DEMO_STAMP)
	@echo 'Installing all extras into $(VENV), about 250 packages (2 minutes the first time) ...'
	@$(BIN)/python tools/install.py tutorial jax onnx parquet plot profile sweep docs dev
	@touch $@

clean:
	rm -rf $(VENV) $(DEMO_DIR) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
