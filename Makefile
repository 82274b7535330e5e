# make setup, serve, test, test-all, bench, lint, clean. ARGS="..." goes to the command behind a target.

VENV := .venv
MODELS ?= smollm2-135m-instruct qwen2.5-coder-0.5b-instruct
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.ready
NATIVE := CMakeLists.txt $(shell find src/kvant/kernels/native -type f 2>/dev/null)

# What a shell has set for other programs must not change what the tests see.
CLEAN_ENV := env -u OMP_NUM_THREADS -u OMP_PLACES -u OMP_PROC_BIND -u GOMP_CPU_AFFINITY -u KMP_AFFINITY \
	-u LD_PRELOAD -u VLLM_PLUGINS -u VLLM_CPU_OMP_THREADS_BIND -u VLLM_CPU_KVCACHE_SPACE \
	-u PYTHONDONTWRITEBYTECODE

.PHONY: setup serve test test-all bench lint clean
.DEFAULT_GOAL := setup

setup: $(READY)

$(READY): pyproject.toml scripts/setup $(NATIVE)
	PYTHON=$(PYTHON) scripts/setup $(VENV)

serve: setup
	$(BIN)/kvant serve $(ARGS)

test: setup
	$(CLEAN_ENV) $(BIN)/python -m pytest $(ARGS)

test-all: setup
	$(CLEAN_ENV) $(BIN)/python -m pytest -m "slow or not slow" $(ARGS)

bench: setup
	$(CLEAN_ENV) $(BIN)/kvant fidelity $(MODELS) $(ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
