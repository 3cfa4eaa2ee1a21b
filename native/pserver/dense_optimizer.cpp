// Compiled without contraction (CMakeLists.txt): multiply-adds are fused where it says std::fma, and nowhere else.
#include "pserver/dense_optimizer.h"

#include <cmath>

namespace clickline::pserver {

namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.999;
constexpr float kEpsilon = 1e-8f, kAdagradEpsilon = 1e-10f;

// The loops are written once for a gradient with the weights' share in it and once without: PyTorch adds none where
// the decay is 0, and 0 times an infinite weight would be no number.
template <bool kDecay>
float decayed(float gradient, float value, float decay) {
  return kDecay ? std::fma(value, decay, gradient) : gradient;
}

template <bool kDecay>
void sgd(float *__restrict w, const float *__restrict g, size_t count, DenseRate rate) {
  const float lr = static_cast<float>(rate.learning_rate), decay = static_cast<float>(rate.weight_decay);
  for (size_t i = 0; i < count; ++i) w[i] = std::fma(-lr, decayed<kDecay>(g[i], w[i], decay), w[i]);
}

template <bool kDecay>
void adagrad(float *__restrict w, float *__restrict s, const float *__restrict g, size_t count, DenseRate rate) {
  const float lr = static_cast<float>(rate.learning_rate), decay = static_cast<float>(rate.weight_decay);
  for (size_t i = 0; i < count; ++i) {
    const float x = decayed<kDecay>(g[i], w[i], decay);
    s[i] = std::fma(x, x, s[i]);
    w[i] = w[i] - lr * x / (std::sqrt(s[i]) + kAdagradEpsilon);
  }
}

template <bool kDecay, bool kDecoupled>
void adam(float *__restrict w, float *__restrict m, float *__restrict v, const float *__restrict g, size_t count,
          double step, DenseRate rate) {
  const float decay = static_cast<float>(rate.weight_decay);
  const float keep = static_cast<float>(1 - rate.learning_rate * rate.weight_decay);
  const float gain1 = static_cast<float>(1 - kBeta1), gain2 = static_cast<float>(1 - kBeta2);
  const float beta2 = static_cast<float>(kBeta2);
  const float back = static_cast<float>(-(rate.learning_rate / (1 - std::pow(kBeta1, step))));
  const float correction = static_cast<float>(std::sqrt(1 - std::pow(kBeta2, step)));
  for (size_t i = 0; i < count; ++i) {
    const float x = decayed<kDecay && !kDecoupled>(g[i], w[i], decay);
    const float kept = kDecay && kDecoupled ? w[i] * keep : w[i];
    m[i] = std::fma(gain1, x - m[i], m[i]);
    v[i] = std::fma(gain2 * x, x, v[i] * beta2);
    w[i] = kept + back * m[i] / (std::sqrt(v[i]) / correction + kEpsilon);
  }
}

}  // namespace

void dense_sgd(float *values, const float *gradient, size_t count, DenseRate rate) {
  rate.weight_decay != 0 ? sgd<true>(values, gradient, count, rate) : sgd<false>(values, gradient, count, rate);
}

void dense_adagrad(float *values, float *sums, const float *gradient, size_t count, DenseRate rate) {
  rate.weight_decay != 0 ? adagrad<true>(values, sums, gradient, count, rate)
                         : adagrad<false>(values, sums, gradient, count, rate);
}

void dense_adam(float *values, float *means, float *squares, const float *gradient, size_t count, double step,
                bool decoupled, DenseRate rate) {
  if (rate.weight_decay == 0)
    adam<false, false>(values, means, squares, gradient, count, step, rate);
  else if (decoupled)
    adam<true, true>(values, means, squares, gradient, count, step, rate);
  else
    adam<true, false>(values, means, squares, gradient, count, step, rate);
}

void dense_average(float *__restrict average, const float *__restrict values, size_t count, double share) {
  const float part = static_cast<float>(share);
  // From the nearer end, as PyTorch's lerp: where the share is 1 the average becomes the values exactly.
  if (part < 0.5f)
    for (size_t i = 0; i < count; ++i) average[i] = std::fma(part, values[i] - average[i], average[i]);
  else
    for (size_t i = 0; i < count; ++i) average[i] = std::fma(part - 1.0f, values[i] - average[i], values[i]);
}

}  // namespace clickline::pserver
