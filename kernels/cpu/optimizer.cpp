// AdamW, gradient descent, Lion, momentum and norms over all elements.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/dispatch.hpp"
#include "kernels/update_factors.hpp"

namespace plumbline::cpu {
namespace {

PLUMBLINE_INLINE Lanes square_root(Lanes v) {
  Lanes result;
  for (int i = 0; i < kLanes; ++i) result[i] = __builtin_sqrtf(v[i]);
  return result;
}

template <class P, class G>
PLUMBLINE_MULTIVERSION void adam_update(P* parameter, const G* gradient, float* master, float* moment1,
                                        float* moment2, std::int64_t count, AdamFactors f) {
  for_lanes(count, [&] PLUMBLINE_LANES {
    const Lanes g = load(gradient + i, part) * f.gradient_scale;
    const Lanes m = load(moment1 + i, part) * f.keep1 + g * f.add1;
    const Lanes v = load(moment2 + i, part) * f.keep2 + g * g * f.add2;
    const Lanes old = master == nullptr ? load(parameter + i, part) : load(master + i, part);
    const Lanes updated = old * f.decay - f.step * m / (square_root(v) * f.root + f.epsilon);
    store(moment1 + i, m, part);
    store(moment2 + i, v, part);
    store(parameter + i, updated, part);
    if (master != nullptr) store(master + i, updated, part);
  });
}

template <class P, class G>
PLUMBLINE_MULTIVERSION void sgd_update(P* parameter, const G* gradient, float* master, std::int64_t count,
                                       float decay, float factor) {
  for_lanes(count, [&] PLUMBLINE_LANES {
    const Lanes old = master == nullptr ? load(parameter + i, part) : load(master + i, part);
    const Lanes updated = old * decay - load(gradient + i, part) * factor;
    store(parameter + i, updated, part);
    if (master != nullptr) store(master + i, updated, part);
  });
}

/// 1, -1, or 0 of 0.
PLUMBLINE_INLINE Lanes sign(Lanes v) {
  Lanes result;
  for (int i = 0; i < kLanes; ++i) result[i] = v[i] == 0 ? 0 : __builtin_copysignf(1, v[i]);
  return result;
}

template <class P, class G>
PLUMBLINE_MULTIVERSION void lion_update(P* parameter, const G* gradient, float* master, float* momentum,
                                        std::int64_t count, LionFactors f) {
  for_lanes(count, [&] PLUMBLINE_LANES {
    const Lanes g = load(gradient + i, part) * f.gradient_scale;
    const Lanes m = load(momentum + i, part);
    const Lanes old = master == nullptr ? load(parameter + i, part) : load(master + i, part);
    const Lanes updated = old * f.decay - sign(m * f.keep1 + g * f.add1) * f.step;
    store(momentum + i, m * f.keep2 + g * f.add2, part);
    store(parameter + i, updated, part);
    if (master != nullptr) store(master + i, updated, part);
  });
}

template <class G, class U>
PLUMBLINE_MULTIVERSION void average(const G* gradient, float* momentum, U* update, std::int64_t count,
                                    MomentumFactors f) {
  for_lanes(count, [&] PLUMBLINE_LANES {
    const Lanes g = load(gradient + i, part) * f.gradient_scale;
    const Lanes m = load(momentum + i, part) * f.keep + g * f.add;
    store(momentum + i, m, part);
    if (update != nullptr) store(update + i, g * f.of_gradient + m * f.of_momentum, part);
  });
}

template <class T>
PLUMBLINE_MULTIVERSION double squares(Matrix x) {
  using HalfLanes = float __attribute__((vector_size(32)));
  using Doubles = double __attribute__((vector_size(64)));
  Doubles lower{};
  Doubles upper{};
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const T* in = row_of<T>(x, row);
    for_lanes(x.cols, [&] PLUMBLINE_LANES {
      const Lanes value = load(in + i, part);
      HalfLanes halves[2];
      std::memcpy(halves, &value, sizeof value);
      const Doubles first = __builtin_convertvector(halves[0], Doubles);
      const Doubles second = __builtin_convertvector(halves[1], Doubles);
      lower += first * first;
      upper += second * second;
    });
  }
  double result = 0;
  for (int i = 0; i < kLanes / 2; ++i) result += lower[i] + upper[i];
  return result;
}

}  // namespace

void CpuOperators::adam(Matrix parameter, Matrix gradient, Matrix master, Matrix moment1, Matrix moment2,
                        const AdamStep& step) {
  const AdamFactors factors = adam_factors(step);
  with_types("adam", parameter.dtype, gradient.dtype, [&](auto type, auto gradient_type) {
    using P = decltype(type);
    using G = decltype(gradient_type);
    adam_update<P, G>(parameter.as<P>(), gradient.as<G>(), master.as<float>(), moment1.as<float>(),
                      moment2.as<float>(), parameter.elements(), factors);
  });
}

void CpuOperators::sgd(Matrix parameter, Matrix gradient, Matrix master, const DescentStep& step) {
  with_types("sgd", parameter.dtype, gradient.dtype, [&](auto type, auto gradient_type) {
    using P = decltype(type);
    using G = decltype(gradient_type);
    sgd_update<P, G>(parameter.as<P>(), gradient.as<G>(), master.as<float>(), parameter.elements(),
                     static_cast<float>(1 - step.learning_rate * step.weight_decay),
                     static_cast<float>(step.learning_rate * step.gradient_scale));
  });
}

void CpuOperators::lion(Matrix parameter, Matrix gradient, Matrix master, Matrix momentum,
                        const LionStep& step) {
  const LionFactors factors = lion_factors(step);
  with_types("lion", parameter.dtype, gradient.dtype, [&](auto type, auto gradient_type) {
    using P = decltype(type);
    using G = decltype(gradient_type);
    lion_update<P, G>(parameter.as<P>(), gradient.as<G>(), master.as<float>(), momentum.as<float>(),
                      parameter.elements(), factors);
  });
}

void CpuOperators::momentum(Matrix gradient, Matrix momentum, Matrix update, const MomentumStep& step) {
  const MomentumFactors factors = momentum_factors(step);
  with_types("momentum", gradient.dtype, update.data == nullptr ? DType::fp32 : update.dtype,
             [&](auto gradient_type, auto type) {
               using G = decltype(gradient_type);
               using U = decltype(type);
               average<G, U>(gradient.as<G>(), momentum.as<float>(), update.as<U>(), gradient.elements(),
                             factors);
             });
}

void CpuOperators::normalize(Matrix x, double epsilon) {
  double sum = 0;
  with_type("normalize", x.dtype, [&](auto type) { sum = squares<decltype(type)>(flattened(x)); });
  scale(x, 1 / std::max(std::sqrt(sum), epsilon));
}

Number CpuOperators::squared_norm(Matrix x) {
  double result = 0;
  with_type("squared_norm", x.dtype, [&](auto type) { result = squares<decltype(type)>(flattened(x)); });
  return result;
}

}  // namespace plumbline::cpu
