#!/bin/sh
# All tests: sh tests/run.sh PYTHON. The native ones, which are mostly compiling, take what of the machine the others
# leave, and are told of at the end. Whatever ends this script, nothing that it has started goes on.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build
log=build/native-test.log
native='' tests=''

# Each is a session, so that all of it can be signalled. It may be too young to be one yet.
signal() { kill -s "$1" -- "-$2" 2> /dev/null || kill -s "$1" "$2" 2> /dev/null || true; }

end() {
  trap '' INT TERM HUP
  signal TERM "$native"
  signal INT "$tests" # pytest's way to stop: it ends what its tests have started
  tries=0
  while kill -s 0 -- "-$tests" 2> /dev/null && [ "$tries" -lt 100 ]; do
    sleep 0.1
    tries=$((tries + 1))
  done
  signal KILL "$tests"
  signal KILL "$native"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

BUILD_NICE=10 setsid make -s native-test > "$log" 2>&1 &
native=$!
CLICKLINE_TEST_COUNTS=${CLICKLINE_TEST_COUNTS:-build/test-counts.json}
export CLICKLINE_TEST_COUNTS # for docs/robustness.md
rm -f "$CLICKLINE_TEST_COUNTS"
unset PYTHONDONTWRITEBYTECODE # set in many containers: each of thousands of processes would compile what it imports
# Three on two cores: many tests wait for other processes, and two of them left a quarter of the machine idle.
setsid "$1" -m pytest -n 3 --dist worksteal --durations 40 &
tests=$!
wait "$tests"
wait "$native" || { cat "$log"; exit 1; }
cat "$log"
