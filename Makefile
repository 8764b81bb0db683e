# The one entry point for people, for CI and for the agent. `make help` lists what there is.
.DEFAULT_GOAL := help
.PHONY: help demo test tests plain test-long check format attacks faults bench setup setup-bench setup-containers tools mutations \
    lock clean

PYTHON ?= python3.11
python := .venv/bin/python

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: setup ## watch an agent live, improve itself, fail and recover (SANDBOX=podman: in a sealed container)
	@.venv/bin/minifram demo $(if $(SANDBOX),--sandbox $(SANDBOX))

# Tests live in memory where 4 GiB of it are free and programs may run from it. glibc reserves 64 MiB of addresses for
# each of the servers' threads: more than there is where they are limited (ulimit -v). What is compiled is kept.
memory := $(shell awk '$$2 == "/dev/shm" && $$4 !~ /noexec/' /proc/mounts | grep -q . && \
    df --output=avail -BG /dev/shm | awk 'NR == 2 && $$1 + 0 >= 4 { print "/dev/shm" }')
tests test-long attacks faults: export TMPDIR := $(or $(memory),$(TMPDIR),/tmp)
tests test-long attacks faults: export MALLOC_ARENA_MAX := 2
tests test-long attacks faults: export PYTHONDONTWRITEBYTECODE :=
# Most tests wait for processes rather than compute, so there are two workers for each core.
pytest = $(python) -m pytest -n $$(($$(nproc) * 2)) --dist worksteal

test: setup tools ## check, and run every test that guards a change
	@$(MAKE) --no-print-directory --jobs check tests
	@echo '== all checks and tests passed. Next: `make demo` shows the whole thing at work, `make bench` measures it.'

# One process compiles all tests before the workers would. The image is built beside the tests that need no container.
tests: setup tools ## the tests of `make test`, without the checks
	@echo "== tests in $$TMPDIR"
	@$(python) -m pytest --collect-only -qq -m "not long" >/dev/null || true
	@$(MAKE) --no-print-directory --jobs --keep-going plain setup-containers || \
	    { $(MAKE) --no-print-directory setup-containers; exit 1; } # says last what would be far above
	@$(pytest) -m "not long and contained" tests/sealed tests/host tests/discovery

plain: setup
	@$(pytest) --budget -m "not long and not contained"

test-long: setup-containers ## the same rules at greater size: years of simulation, more examples, power cuts, all figures
	@$(pytest) -m long
	@$(pytest) -m hypothesis --hypothesis-profile long
	@$(MAKE) --no-print-directory attacks faults

check: setup ## formatting, lint and types
	@$(python) -m ruff format --check
	@$(python) -m ruff check
	@$(python) -m mypy --strict
	@$(python) -m mypy --strict --python-version 3.10 discovery

format: setup ## put imports and layout in order
	@$(python) -m ruff check --quiet --select I --fix && $(python) -m ruff format

attacks faults: setup-containers ## try each line of spec/ATTACKS.md or spec/FAULTS.md, and print by number what held
	@$(python) -m tests.lists spec/$$(echo $@ | tr a-z A-Z).md

mutations: setup ## break some thirty rules of the product, one by one: a test has to notice each
	@$(python) -m tests.mutations

bench: setup setup-bench ## measure minifram beside its peers; one figure: .venv/bin/python -m bench NAME
	@$(python) -m bench

setup: .venv/.ready ## install what minifram needs to run, and to be worked on, into .venv

setup-bench: .venv-bench/.ready ## the peers for `make bench`, into .venv-bench
	@scripts/need runsv:runit

# An environment whose stamp is there is whole. It holds dependencies only, never the project: `python -m infra.runner` in
# another checkout must find that checkout's code or none.
.venv/.ready: requirements-dev.lock
.venv-bench/.ready: requirements-bench.lock
.venv/.ready .venv-bench/.ready:
	@scripts/need git $(PYTHON):python3.11
	@$(PYTHON) -Ic 'import ensurepip' 2>/dev/null || scripts/need python3.11-venv
	@echo "minifram: installing the packages of $< into $(@D) ..." >&2
	@rm -rf $(@D) && $(PYTHON) -Im venv --prompt minifram $(@D)
	@$(@D)/bin/python -Im pip install -q --require-hashes --no-deps --disable-pip-version-check --root-user-action ignore -r $<
	@ln -s ../../scripts/minifram $(@D)/bin/minifram && touch $@

tools:
	@scripts/need podman runc slirp4netns newuidmap:uidmap fuse-overlayfs nft:nftables dnsmasq:dnsmasq-base mmdebstrap \
	    ip:iproute2 setpriv:util-linux strace openssl chromium

setup-containers: setup tools ## what the tests with containers need: a user, Debian's base and the image
	@$(python) -m tests.sealed.prepare

compile := $(python) -m uv pip compile --quiet --python-platform linux --python-version 3.11 --generate-hashes \
    --no-header --no-annotate --no-emit-index-url --no-emit-find-links $(if $(UPGRADE),--upgrade)

lock: setup ## write the lock files anew (UPGRADE=1 takes the newest releases)
	@$(compile) requirements.in -o requirements.lock
	@$(compile) requirements-dev.in -c requirements.lock -o requirements-dev.lock
	@$(compile) requirements-bench.in -o requirements-bench.lock
	@! grep -nE '://|file:| @ ' requirements*.lock # an address; a lock must hold none

clean: ## remove the environments and the caches
	rm -rf .venv* .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.* htmlcov
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
