// The rules by which a server's block of dense parameters learns: PyTorch's fused kernels, operation by operation, with
// a fused multiply-add where those have one, so that a server need not load PyTorch and a run comes to the same numbers.
// Promises: what becomes of a number depends on nothing but that number, its state and its gradient. (PyTorch treats the
// last few of a vector differently from the others, so there it depends on where a block ends.)
#pragma once

#include <cstddef>

namespace clickline::pserver {

// What all rules have in common. Adagrad's epsilon is that of PyTorch, 1e-10; of the others 1e-8.
struct DenseRate {
  double learning_rate, weight_decay;
};

void dense_sgd(float *values, const float *gradient, size_t count, DenseRate rate);
void dense_adagrad(float *values, float *sums, const float *gradient, size_t count, DenseRate rate);

// `step` counts from 1. Decoupled: the weights themselves decay (adamw), not by way of the gradient (adam).
void dense_adam(float *values, float *means, float *squares, const float *gradient, size_t count, double step,
                bool decoupled, DenseRate rate);

// Moves a moving average towards the values by this share of the way.
void dense_average(float *average, const float *values, size_t count, double share);

}  // namespace clickline::pserver
