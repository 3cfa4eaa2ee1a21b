#!/bin/sh
# The tests of tests/cluster, with all that they need: sh tests/setup/kubernetes/test.sh PYTHON [ARGUMENTS OF PYTEST]. Builds Kubernetes and the
# image if they are not in ~/.cache/clickline, starts a cluster and ends it. Where that is not possible it says so, and is no failure.
# CLICKLINE_TEST_KUBECONFIG and CLICKLINE_TEST_IMAGE name a cluster that is there, and an image that it has: then nothing is built.
set -eu
here=$(dirname "$0")
python=$1
shift
set -- "$python" -m pytest --durations 20 tests/cluster "$@"
if [ -n "${CLICKLINE_TEST_KUBECONFIG:-}" ]; then
  [ -n "${CLICKLINE_TEST_IMAGE:-}" ] || { echo "cluster: CLICKLINE_TEST_IMAGE must name an image for it, as its nodes can pull it" >&2; exit 2; }
  exec "$@"
fi
status=0
nice -n 15 sh "$here/build.sh" > /dev/null || status=$?
if [ "$status" = 0 ]; then IMAGES=$(nice -n 10 sh "$here/image.sh") || status=$?; fi
if [ "$status" = 0 ]; then
  export IMAGES
  sh "$here/with_cluster.sh" "$@" || status=$?
fi
[ "$status" = 77 ] || exit "$status"
echo "cluster: its tests are skipped, for the reason above" >&2
