// The rules by which a row learns, fused into a push. Each is a loop over one row that the compiler can
// vectorise; `state` is what the rule keeps per row, some multiple of the row's length.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace clickline::table {

struct OptimizerConfig {
  std::string name = "adagrad";
  double learning_rate = 0.05, l1 = 0, l2 = 0, weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, initial = 0.1, clip = 0;
};

// The factors of one optimizer step, computed once per push and shared by all its rows.
struct StepFactors {
  float rate, l1, l2, keep;                // keep: 1 - rate * weight_decay
  float gain1, gain2, epsilon, corrected;  // adam: 1 - beta1, 1 - beta2; rate with bias correction
  float beta, per_alpha;                   // ftrl
  float clip;

  StepFactors(const OptimizerConfig &o, double scale, uint64_t count) {
    const double lr = o.learning_rate * scale, n = static_cast<double>(count);
    rate = static_cast<float>(lr);
    l1 = static_cast<float>(o.l1), l2 = static_cast<float>(o.l2);
    keep = static_cast<float>(1.0 - lr * o.weight_decay);
    gain1 = static_cast<float>(1.0 - o.beta1), gain2 = static_cast<float>(1.0 - o.beta2);
    epsilon = static_cast<float>(o.epsilon);
    corrected = static_cast<float>(lr * std::sqrt(1.0 - std::pow(o.beta2, n)) / (1.0 - std::pow(o.beta1, n)));
    beta = static_cast<float>(o.initial), per_alpha = static_cast<float>(1.0 / lr);
    clip = static_cast<float>(o.clip);
  }
};

struct Sgd {
  static constexpr uint32_t kStates = 0;
  static constexpr bool kPenalised = true;  // l1 and l2 are added to the gradient
  static void update(float *__restrict w, float *__restrict, const float *__restrict g, size_t dim,
                     const StepFactors &c) {
    for (size_t i = 0; i < dim; ++i) w[i] -= c.rate * g[i];
  }
};

struct Adagrad {
  static constexpr uint32_t kStates = 1;
  static constexpr bool kPenalised = true;
  static void update(float *__restrict w, float *__restrict s, const float *__restrict g, size_t dim,
                     const StepFactors &c) {
    for (size_t i = 0; i < dim; ++i) {
      s[i] += g[i] * g[i];
      w[i] -= c.rate * g[i] / (std::sqrt(s[i]) + c.epsilon);
    }
  }
};

// torch.optim.SparseAdam: lazy rows, one step count for the whole table, epsilon inside the bias correction.
template <bool kDecay>
struct AdamRule {
  static constexpr uint32_t kStates = 2;
  static constexpr bool kPenalised = true;
  static void update(float *__restrict w, float *__restrict s, const float *__restrict g, size_t dim,
                     const StepFactors &c) {
    float *__restrict mean = s, *__restrict square = s + dim;
    for (size_t i = 0; i < dim; ++i) {
      mean[i] += (g[i] - mean[i]) * c.gain1;
      square[i] += (g[i] * g[i] - square[i]) * c.gain2;
      const float kept = kDecay ? w[i] * c.keep : w[i];
      w[i] = kept - c.corrected * mean[i] / (std::sqrt(square[i]) + c.epsilon);
    }
  }
};
using Adam = AdamRule<false>;
using AdamW = AdamRule<true>;

// FTRL-proximal per coordinate; l1 and l2 are its own, the weights follow from the state.
struct Ftrl {
  static constexpr uint32_t kStates = 2;
  static constexpr bool kPenalised = false;
  static void update(float *__restrict w, float *__restrict s, const float *__restrict g, size_t dim,
                     const StepFactors &c) {
    float *__restrict z = s, *__restrict n = s + dim;
    for (size_t i = 0; i < dim; ++i) {
      const float root = std::sqrt(n[i] + g[i] * g[i]);
      z[i] += g[i] - (root - std::sqrt(n[i])) * c.per_alpha * w[i];
      n[i] += g[i] * g[i];
      const float excess = std::fabs(z[i]) - c.l1;
      w[i] = -std::copysign(excess > 0 ? excess : 0.0f, z[i]) / ((c.beta + root) * c.per_alpha + c.l2);
    }
  }
};

// The gradient as the rule sees it: clipped to a norm first, then with the penalties' share.
inline void shape_gradient(const float *__restrict w, const float *__restrict g, float *__restrict out, size_t dim,
                           const StepFactors &c, bool penalised) {
  float factor = 1.0f;
  if (c.clip > 0) {
    double squares = 0;
    for (size_t i = 0; i < dim; ++i) squares += double{g[i]} * g[i];
    const double norm = std::sqrt(squares);
    if (norm > c.clip) factor = static_cast<float>(c.clip / norm);
  }
  if (penalised) {
    for (size_t i = 0; i < dim; ++i) {
      const float sign = static_cast<float>((w[i] > 0) - (w[i] < 0));
      out[i] = g[i] * factor + c.l2 * w[i] + c.l1 * sign;
    }
  } else {
    for (size_t i = 0; i < dim; ++i) out[i] = g[i] * factor;
  }
}

// Calls visit(Rule{}) for the rule of that name.
template <class Visit>
auto with_rule(const std::string &name, Visit visit) {
  if (name == "sgd") return visit(Sgd{});
  if (name == "adagrad") return visit(Adagrad{});
  if (name == "adam") return visit(Adam{});
  if (name == "adamw") return visit(AdamW{});
  if (name == "ftrl") return visit(Ftrl{});
  throw std::invalid_argument("unknown sparse optimizer '" + name + "'; known: sgd, adagrad, adam, adamw, ftrl");
}

}  // namespace clickline::table
