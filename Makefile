# Every target sets up what it needs: .venv in this folder, the pinned packages, the Java libraries in the user's cache.
# Another Python than `python3`: make PYTHON=python3.12 demo

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input install
READY := .venv/.ready
SEED ?= $(shell date +%s)
SEEDS ?= 100000
LOCK := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --custom-compile-command 'make lock'

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

##@ Use
.PHONY: demo
demo: $(READY) ## run the whole job on recorded topics, in ./demo
	@$(BIN)/cdcm demo demo

##@ Work on it
.PHONY: test
test: $(READY) ## all tests: those on Spark, and beside them those without and the golden cases, which have a session of their own
	@echo "Two halves side by side, each shown when it ends: about 10 minutes on two cores."
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target test-spark test-pure test-cases

.PHONY: test-spark test-pure test-cases
test-spark: $(READY)
	$(BIN)/python -m pytest -m spark --durations=20 --durations-min=10 --ignore=tests/spark/test_cases.py

test-pure: $(READY)
	CDCM_SEEDS=1000 $(BIN)/python -m pytest -m 'not spark and not integration'

test-cases: $(READY)
	$(BIN)/python -m pytest -m spark tests/spark/test_cases.py

.PHONY: test-all
test-all: $(READY) ## every test there is, with none left to chance: golden cases in all cuts, each crash point, each mutant; hours
	CDCM_TESTS=all CDCM_SEEDS=2000 $(BIN)/python -m pytest -m 'not integration' --durations=20 --durations-min=10

.PHONY: soak
soak: $(READY) ## a hundred thousand schedules of faults, kills, hundreds of batches in one process; SEED=17 begins there, SEEDS=1000 takes fewer
	@echo "Schedules $(SEED) to $(SEED) + $(SEEDS); one that fails says CDCM_SEED."
	CDCM_SEED=$(SEED) CDCM_SEEDS=$(SEEDS) $(BIN)/python -m pytest tests/unit/test_commits.py -k 'whatever_happens or TestMachine'
	CDCM_TESTS=all $(BIN)/python -m pytest -m spark $(addprefix tests/spark/test_,crash.py replay_crash.py maintain_crash.py command_crash.py)
	CDCM_TESTS=all $(BIN)/python -m pytest -m spark -s tests/spark/test_soak.py

.PHONY: check
check: $(READY) ## lint, format, types, and what `datacontract lint` says of the contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	@for file in contracts/*.yaml cdc_materializer/demo_data/contracts/*.yaml; do $(BIN)/datacontract lint $$file || exit 1; done

.PHONY: integration
integration: $(READY) ## the real chain: databases, Debezium, Kafka, registry, catalog; SHORT=1 leaves the longer half out
	@rm -rf build/integration-logs
	@echo "Two chains side by side: what follows the databases, and what goes wrong around them."
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target integration-databases integration-faults

FOLLOWING := $(addprefix integration/test_,live.py snapshots.py identity.py surprises.py init.py source_verify.py replay.py)
CHAIN := $(BIN)/python -m pytest --durations=0 --durations-min=5 -m 'integration$(if $(SHORT), and not long)'

.PHONY: integration-databases
integration-databases: $(READY)
	$(CHAIN) $(FOLLOWING)

.PHONY: integration-faults
integration-faults: $(READY)
	$(CHAIN) integration $(addprefix --ignore=,$(FOLLOWING))

.PHONY: fuzz
fuzz: $(READY) ## what anyone can put into a topic or a registry, chosen by atheris: FUZZ=60 seconds a target
	@$(PIP) --require-hashes --no-deps --requirement requirements-fuzz.lock
	$(BIN)/python tests/fuzz/run.py --seconds $(or $(FUZZ),60)

.PHONY: bench
bench: $(READY) ## measure: every benchmarks/bench_*.py; ARGS="--changes 100000 --pairs 2" for smaller ones
	@missed=0; for file in benchmarks/bench_*.py; do \
	$(BIN)/python -m benchmarks.$$(basename $$file .py) $(ARGS) || missed=1; done; exit $$missed

.PHONY: docs
docs: $(READY) ## write the reference pages anew from the code
	@test -f docs/generate.py || { echo "make docs: there is no docs/generate.py to run." >&2; exit 2; }
	$(BIN)/python docs/generate.py

.PHONY: lock
lock: $(READY) ## pin the packages anew after a change of pyproject.toml; UPGRADE=1 takes newer ones
	$(LOCK) $(if $(UPGRADE),--upgrade) --all-extras pyproject.toml --output-file requirements.lock
	$(LOCK) $(if $(UPGRADE),--upgrade) --group build --constraint requirements.lock --output-file requirements-build.lock
	$(LOCK) $(if $(UPGRADE),--upgrade) --group fuzz --constraint requirements.lock --output-file requirements-fuzz.lock

.PHONY: clean
clean: ## remove what was made here (.venv, ./demo, caches of tools); the Java libraries stay in the user's cache
	rm -rf .venv demo build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

##@ About
.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Asked before anything long, and again by every run: a machine's Python and Java change. Java is checked by our own
# code, which needs nothing installed for it.
.PHONY: machine
machine:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo \
	"Python 3.11 or newer is needed, and \`$(PYTHON)\` is older or missing: install one, or name it: make PYTHON=python3.12" \
	>&2; exit 2; }
	@PYTHONDONTWRITEBYTECODE=1 $(PYTHON) -m cdc_materializer.jars --java

$(READY): pyproject.toml requirements-build.lock requirements.lock cdc_materializer/ivy.xml cdc_materializer/jars.sha256 | machine
	@echo "Setting up .venv with the pinned packages (once, some minutes) …" >&2
	@$(PYTHON) -m venv .venv || { echo \
	"\`$(PYTHON) -m venv\` failed: on Debian and Ubuntu install the package python3-venv." >&2; exit 2; }
	@$(PIP) --require-hashes --requirement requirements-build.lock
	@$(PIP) --require-hashes --no-build-isolation --requirement requirements.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m cdc_materializer.jars
	@touch $@
