# Every target sets up what it needs in .venv: pinned dependencies, then the package with its native core. What must be on
# the system for that is looked for first, by requirements.sh.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := CMakeLists.txt pyproject.toml $(filter-out native/tests/%,$(wildcard native/*/*.h native/*/*.cpp native/*/*/*.h native/*/*/*.cpp))

.PHONY: cluster image cluster-shell test-cluster chaos key-effects fuzz soak up test test-bare test-wheel test-wheel-up check bench bench-train bench-ps bench-cube bench-serve bench-hosts bench-operator published-tables strategies quality quality-movielens native-test reference docs pictures measures decisions clean

up: $(VENV)/built
	$(BIN)/clickline up

test: $(VENV)/built
	@sh requirements.sh $(BIN)/python curl openssl
	sh tests/run.sh $(BIN)/python

# The two commands above, from nothing, in a root with Debian's minimum (as root, with debootstrap).
test-bare:
	sh tests/setup/bare_root.sh sh -ec 'python3 tests/setup/make_up.py; make test'

# Kubernetes 1.20 for tests, built once into ~/.cache/clickline, outside of the checkout: root on Debian, 7 minutes.
# `make test` uses its API server if it is there.
cluster:
	nice -n 15 sh tests/setup/kubernetes/build.sh

# The image of this checkout, built once for its dependencies into the same cache; prints tar files.
image:
	@nice -n 10 sh tests/setup/kubernetes/image.sh

# A shell beside a cluster of one node in which pods run; all of it ends with the shell.
cluster-shell: cluster
	IMAGES="$$(nice -n 10 sh tests/setup/kubernetes/image.sh < /dev/null)" && export IMAGES && sh tests/setup/kubernetes/with_cluster.sh

# Tests of pods that really run, in such a cluster; where there can be none (exit code 77), it says why.
test-cluster: $(VENV)/built
	sh tests/setup/kubernetes/test.sh $(BIN)/python

# The wheel beside the newest PyTorch, or the one that TORCH names, in an environment of its own: gigabytes, minutes.
test-wheel: $(VENV)/built
	$(BIN)/python tests/setup/wheel.py

# `clickline up --once` from the wheel, in an empty environment outside of the checkout.
test-wheel-up: $(VENV)/built
	$(BIN)/python tests/setup/wheel_up.py

check: $(VENV)/built
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/mkdocs build --strict --quiet

bench: bench-train bench-ps bench-cube bench-serve bench-hosts

soak: $(VENV)/built
	SOAK_SECONDS=$${SOAK_SECONDS:-7200} $(BIN)/python -m pytest -o faulthandler_timeout=0 tests/promises/serving/test_soak.py

# Random faults on a whole suite: CHAOS_MINUTES, CHAOS_SEED, CHAOS_WITHOUT. docs/robustness.md gets the counts.
chaos: $(VENV)/built
	PYTHONPATH=tests $(BIN)/python -m support.chaos --output build/chaos
	$(BIN)/python tests/support/summaries/robustness_table.py --chaos build/chaos/chaos.json --tests build/test-counts.json

# Every key of the job under every strategy: it has an effect, is refused, or is reported. Fails if one is silent; minutes.
key-effects: $(VENV)/built
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m support.key_effects --output build/key-effects.txt

bench-train: $(VENV)/built
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python benchmarks/train.py --rounds 5

bench-ps: $(VENV)/built
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python benchmarks/ps.py

bench-cube: $(VENV)/built
	$(BIN)/python benchmarks/cube.py

# As root: the hosts are network namespaces.
bench-hosts: $(VENV)/built
	$(BIN)/python benchmarks/hosts.py

# The PaddleJob operator on an API server of `make cluster`, to the limits of benchmarks/operator_limits.json.
bench-operator: $(VENV)/built
	$(BIN)/python benchmarks/paddle_jobs.py

bench-serve: $(VENV)/built
	$(BIN)/python benchmarks/serve.py --rounds 5

# What we write ourselves beside the library that could replace it: figures of docs/decisions. One alone: make decision-wire
DECISIONS := wire http_worker json_reader counters file_ranges

decisions: $(addprefix decision-,$(DECISIONS))

$(addprefix decision-,$(DECISIONS)): decision-%: $(VENV)/built
	OMP_WAIT_POLICY=PASSIVE PYTHONPATH=benchmarks $(BIN)/python benchmarks/decisions/$*.py --write

# The tables that Cube, Paddle Serving and PaddleRec published, in their shape, with this machine's figures.
published-tables: $(VENV)/built
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python benchmarks/published_tables.py

strategies: $(VENV)/built
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python benchmarks/strategies.py --seeds 1,2,3

quality: $(VENV)/built
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python benchmarks/quality.py --synthetic

# Clicks (din, mmoe) and ratings, on MovieLens 1M: CLICKLINE_MOVIELENS=ml-1m.zip
quality-movielens: $(VENV)/built
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python benchmarks/movielens.py

native-test: $(VENV)/installed
	PATH="$(abspath $(BIN)):$$PATH" sh native/tests/run.sh

# Minutes for each native fuzzer; the others get as many inputs as take them about as long. docs/fuzzing.md
FUZZ ?= 2

fuzz: $(VENV)/built
	PATH="$(abspath $(BIN)):$$PATH" CLICKLINE_FUZZ_SECONDS=$$(($(FUZZ) * 60)) sh native/tests/fuzz.sh
	CLICKLINE_FUZZ_EXAMPLES=$$(($(FUZZ) * 1500)) CLICKLINE_FUZZ_SEED=$${CLICKLINE_FUZZ_SEED:-$$(date +%s)} \
	  $(BIN)/python -m pytest -o faulthandler_timeout=0 tests/fuzz tests/compat tests/versions/test_hostile_versions.py \
	  tests/fileserver/test_file_paths.py

reference: $(VENV)/built
	$(BIN)/python -m clickline.config.reference docs/reference
	$(BIN)/python -m clickline.cli.reference docs/reference
	$(BIN)/python -m clickline.launch.variables docs/reference
	$(BIN)/python -m clickline.ps.protocol.protocol_page docs/reference
	$(BIN)/python -m clickline.compat.paddlerec.keys_page docs/reference
	$(BIN)/python -m clickline.models.signature_source
	$(BIN)/python -m clickline.operator.job.definition deploy/v1

# The site in build/site, from docs/; a link that leads nowhere is an error. Nothing is loaded from elsewhere.
docs: $(VENV)/built pictures
	$(BIN)/mkdocs build --strict --quiet

# docs/pictures/*.svg, from their descriptions and from benchmarks/results.
pictures: $(VENV)/installed
	$(BIN)/python tools/diagram.py
	$(BIN)/python tools/benchmark_chart.py

# How readable the tree is, each figure beside its limit; fails if one is beyond it.
measures: $(VENV)/installed
	$(BIN)/python tools/measures.py

# With the Python that is going to be used: that of .venv, unless it is still to be made (or was left half made).
REQUIREMENTS = @sh requirements.sh "$$($(BIN)/python -m pip --version > /dev/null 2>&1 && echo $(BIN)/python || echo "$(PYTHON)")"

$(VENV)/installed: constraints.txt pyproject.toml
	$(REQUIREMENTS)
	$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -r constraints.txt
	@# As pip would, and as forgivingly, but on all cores.
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	touch $@

$(VENV)/built: $(VENV)/installed $(NATIVE)
	$(REQUIREMENTS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis .import_linter_cache .bench runs
