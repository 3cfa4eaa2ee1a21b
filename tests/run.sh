#!/bin/sh
# All tests: sh tests/run.sh PYTHON. The native ones, which are mostly compiling, take what of the machine the others
# leave, and are told of at the end.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build
log=build/native-test.log
set -m # a group of processes of its own, so that all of it can be ended
BUILD_NICE=10 make -s native-test > "$log" 2>&1 &
native=$!
set +m
trap 'kill -- "-$native" 2> /dev/null || true' EXIT
"$1" -m pytest -n 2 --dist worksteal --durations 15
wait "$native" || { cat "$log"; exit 1; }
cat "$log"
