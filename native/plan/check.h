// What a plan refuses, before it reads or allocates anything by it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace clickline::plan {

struct PlanInput;

// Throw std::invalid_argument. The second covers offsets[first] to offsets[last], so that chunks share the work.
void check_input(const PlanInput &input);
void check_offsets(std::span<const int64_t> offsets, size_t first, size_t last);

}  // namespace clickline::plan
