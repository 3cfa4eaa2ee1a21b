// Threads that share the work of one native call. They are started at first use, kept for the life of the
// process, and asleep (after a few microseconds of watching for more) when there is nothing to do, because the
// cores belong to PyTorch as well.
//
// Promises: the calling thread takes part, so a call finishes even if no other thread can help; any number of
// threads may call at once, also from within a body; a forked child gets threads of its own; nothing has to be
// shut down at exit.
#pragma once

#include <cstddef>
#include <functional>

namespace clickline::base {

// Runs body(0) … body(chunks - 1), each once, in any order, on at most `threads` threads including the caller,
// and returns when all are done. The first exception a body throws is rethrown here; chunks that had not
// started by then are left out. Workers are shared: two callers that ask for 2 threads each get one helper.
void parallel_for(size_t chunks, int threads, const std::function<void(size_t)> &body);

}  // namespace clickline::base
