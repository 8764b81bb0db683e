# The one entry point for people, for CI and for the agent. `make help` lists what there is.
.DEFAULT_GOAL := help
.PHONY: help setup setup-dev setup-containers setup-bench demo test tests test-long check format attacks faults picture bench lock clean

# Not called PYTHON: that is the caller's word for the interpreter to build the environment with.
python := .venv/bin/python

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: setup ## watch an agent live, improve itself, fail and recover (SANDBOX=process picks the sandbox)
	@.venv/bin/minifram demo $(if $(SANDBOX),--sandbox $(SANDBOX))

# The tests' servers start many short threads, and glibc reserves 64 MiB of addresses for each one's memory: more than
# there is on a machine that limits them (ulimit -v).
tests test-long: export MALLOC_ARENA_MAX := 2
# What is compiled is kept, whatever the caller's shell says: each worker, and each program that a test starts, would
# compile it again. `make clean` removes it.
tests test-long: export PYTHONDONTWRITEBYTECODE :=
# Most tests wait for processes rather than compute, so there are two workers for each core.
# Before a fresh clone's first run one process compiles all tests: else each worker would, one beside the other.
pytest = $(python) -m pytest -n $$(($$(nproc) * 2)) --dist worksteal

test: setup-dev ## check, and run every test that guards a change
	@$(MAKE) --no-print-directory --jobs check tests
	@echo '== all checks and tests passed. Next: `make demo` shows the whole thing at work, `make bench` measures it.'

tests: setup-containers ## the tests of `make test`, without the checks
	@$(python) -m pytest --collect-only -qq -m "not long" >/dev/null || true
	@$(pytest) -m "not long"

test-long: setup-containers ## what `make test` tries, at greater size: years of simulation, more examples, all examinations
	@$(pytest) -m long
	@$(pytest) -m hypothesis --hypothesis-profile long
	@$(MAKE) --no-print-directory attacks
	@$(MAKE) --no-print-directory faults

check: setup-dev ## formatting, lint and types
	@echo '== formatting: ruff format --check'
	@$(python) -m ruff format --check
	@echo '== lint: ruff check'
	@$(python) -m ruff check
	@echo '== types: mypy --strict'
	@$(python) -m mypy --strict
	@echo '== types of the scripts that run anywhere: mypy --strict --python-version 3.10'
	@$(python) -m mypy --strict --python-version 3.10 discovery

format: setup-dev ## put imports and layout in order
	@$(python) -m ruff check --quiet --select I --fix
	@$(python) -m ruff format

attacks faults: export MALLOC_ARENA_MAX := 2
attacks: setup-containers ## try each attack of spec/ATTACKS.md, and print by number what held
	@$(python) -m tests.lists spec/ATTACKS.md

faults: setup-containers ## try each fault of spec/FAULTS.md, and print by number what held
	@$(python) -m tests.lists spec/FAULTS.md

# A machine that cannot run containers is told so, and gets all other figures.
bench: setup-dev setup-bench ## measure minifram beside its peers, and its sealed container
	@$(MAKE) --no-print-directory setup-containers || echo '== bench: without the figures of the sealed container' >&2
	@$(python) -m bench

picture: setup ## play the demo, and draw the picture that README opens with
	@.venv/bin/minifram demo >.venv/demo.txt
	@$(python) scripts/picture <.venv/demo.txt >docs/demo.svg

setup: ## install what minifram needs to run, into .venv
	@scripts/setup run

setup-dev: ## the same, and what working on it needs
	@scripts/setup dev

setup-containers: setup-dev ## what the tests with containers need: a user, Debian's base and the image
	@$(python) -m tests.sealed.prepare

setup-bench: ## the peers for `make bench`, into .venv-bench
	@scripts/setup bench

# The development lock is made under the run-time lock, so that both hold the same versions.
compile := $(python) -m uv pip compile --quiet --python-platform linux --python-version 3.11 --generate-hashes \
    --no-header --no-annotate --no-emit-index-url --no-emit-find-links $(if $(UPGRADE),--upgrade)

lock: setup-dev ## write the lock files anew (UPGRADE=1 takes the newest releases)
	@$(compile) requirements.in -o requirements.lock
	@$(compile) requirements-dev.in -c requirements.lock -o requirements-dev.lock
	@$(compile) requirements-bench.in -o requirements-bench.lock
	@! grep -nE '://|file:| @ ' requirements*.lock || { echo 'lock: the lines above hold an address; a lock must hold none' >&2; exit 1; }
	@grep -c '==' requirements*.lock

clean: ## remove the environments and the caches
	rm -rf .venv* .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.* htmlcov
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
