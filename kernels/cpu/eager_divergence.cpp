// The loss of distillation in the separate passes of eager code.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "kernels/ignored_target.hpp"

namespace plumbline::cpu {
namespace {

PLUMBLINE_MULTIVERSION void softmax_rows(Matrix x, std::int64_t valid, bool logarithm, Matrix y) {
  const Lanes lowest = splat(-__builtin_inff());
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const float* in = row_of<float>(x, t);
    float* out = row_of<float>(y, t);
    LaneMaximum best;
    for_lanes(valid, [&] PLUMBLINE_LANES { best.take(keep(load(in + i, part), lowest, part)); });
    const float top = largest(best);
    LaneSum total;
    for_lanes(valid, [&] PLUMBLINE_LANES { total += keep(exp(load(in + i, part) - top), Lanes{}, part); });
    const float shift = top + std::log(sum(total));
    for_lanes(valid, [&] PLUMBLINE_LANES {
      const Lanes log_softmax = load(in + i, part) - shift;
      store(out + i, logarithm ? log_softmax : exp(log_softmax), part);
    });
    std::fill(out + valid, out + y.cols, 0.0F);
  }
}

double terms_of_rows(Matrix p, Matrix log_s, std::int64_t valid, const std::int32_t* targets, Matrix terms) {
  double total = 0;
  for (std::int64_t t = 0; t < p.rows; ++t) {
    float* out = row_of<float>(terms, t);
    std::fill(out, out + terms.cols, 0.0F);
    if (targets[t] == kIgnoredTarget) continue;
    const float* probability = row_of<float>(p, t);
    const float* logarithm = row_of<float>(log_s, t);
    for (std::int64_t j = 0; j < valid; ++j) {
      if (probability[j] == 0) continue;  // p·log p → 0
      out[j] = probability[j] * (std::log(probability[j]) - logarithm[j]);
      total += out[j];
    }
  }
  return total;
}

PLUMBLINE_MULTIVERSION void backward_rows(Matrix dy, Matrix log_s, std::int64_t valid,
                                          const std::int32_t* targets, float factor, Matrix dx) {
  for (std::int64_t t = 0; t < dy.rows; ++t) {
    const float* gradient = row_of<float>(dy, t);
    const float* logarithm = row_of<float>(log_s, t);
    float* out = row_of<float>(dx, t);
    if (targets[t] == kIgnoredTarget) {
      std::fill(out, out + dx.cols, 0.0F);
      continue;
    }
    LaneSum lanes;
    for_lanes(valid, [&] PLUMBLINE_LANES { lanes += keep(load(gradient + i, part), Lanes{}, part); });
    const float total = sum(lanes);
    for_lanes(valid, [&] PLUMBLINE_LANES {
      store(out + i, factor * (load(gradient + i, part) - exp(load(logarithm + i, part)) * total), part);
    });
    std::fill(out + valid, out + dx.cols, 0.0F);
  }
}

}  // namespace

void CpuOperators::softmax(Matrix x, std::int64_t valid, bool logarithm, Matrix y) {
  softmax_rows(x, valid, logarithm, y);
}

Number CpuOperators::divergence_terms(Matrix p, Matrix log_s, std::int64_t valid, Matrix targets,
                                      Matrix terms) {
  return terms_of_rows(p, log_s, valid, targets.as<std::int32_t>(), terms);
}

void CpuOperators::log_softmax_backward(Matrix dy, Matrix log_s, std::int64_t valid, Matrix targets,
                                        double factor, Matrix dx) {
  backward_rows(dy, log_s, valid, targets.as<std::int32_t>(), static_cast<float>(factor), dx);
}

}  // namespace plumbline::cpu
