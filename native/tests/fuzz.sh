#!/bin/sh
# Builds the native fuzzers under address and undefined sanitizers and runs each for CLICKLINE_FUZZ_SECONDS, from another
# seed each time. Arguments: fuzzers, if not all of them. An input that is a finding is left in the build directory.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
build="$here/../../build/native-address-undefined"
export CLICKLINE_FUZZ_SECONDS="${CLICKLINE_FUZZ_SECONDS:-60}" CLICKLINE_FUZZ_SEED="${CLICKLINE_FUZZ_SEED:-$(date +%s)}"
if [ $# -eq 0 ]; then
  for source in "$here"/*/fuzz_*.cpp; do set -- "$@" "$(basename "$source" .cpp)"; done
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ "${CMAKE:-cmake}" -S "$here" -B "$build" -DSANITIZE=address,undefined &&
  "${CMAKE:-cmake}" --build "$build" -j2 --target "$@"; } > "$log" 2>&1 || { cat "$log"; exit 1; }
cd "$build"
found=0
for fuzzer; do
  "./$fuzzer" 2> "$log" || { found=1; grep -v ' turned away ' "$log" >&2 || true
    echo "$fuzzer: a finding, seed $CLICKLINE_FUZZ_SEED; its input is $build/${fuzzer#fuzz_}.input" >&2; }
done
exit $found
