#!/bin/sh
# Builds the native tests with each set of sanitizers and runs them. Arguments: sets, if not all of them. BUILD_NICE is
# how far building steps back behind what else runs; the tests themselves do not, since some wait for moments.
set -eu
root=$(CDPATH= cd -- "$(dirname -- "$0")/../.." && pwd)
[ $# -gt 0 ] || set -- address,undefined thread
cmake=${CMAKE:-cmake}
ctest=${CTEST:-ctest}
export ASAN_OPTIONS="detect_leaks=1:strict_string_checks=1:check_initialization_order=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
export TSAN_OPTIONS="second_deadlock_stack=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}"
jobs=$(getconf _NPROCESSORS_ONLN)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for set; do
  build="$root/build/native-$(echo "$set" | tr , -)"
  { "$cmake" -S "$root/native/tests" -B "$build" -DSANITIZE="$set" &&
    nice -n "${BUILD_NICE:-0}" "$cmake" --build "$build" -j "$jobs"; } > "$log" 2>&1 ||
    { cat "$log"; echo "native tests: the build for $set failed" >&2; exit 1; }
  grep -A6 'warning:' "$log" || true
  (cd "$build" && "$ctest" --output-on-failure -j "$jobs") > "$log" 2>&1 ||
    { cat "$log"; echo "native tests: failed under $set" >&2; exit 1; }
  grep 'tests passed' "$log" | sed "s/^/$set: /"
done
echo "native tests: all passed under $*"
