// The arithmetic of single elements, for kernels and for tests on the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>

#include "kernels/update_factors.hpp"

namespace plumbline::cuda {

// 0.5·(1 + tanh(u)) = sigmoid(2u), so GELU is x·sigmoid(kGelu·(x + kCube·x³)) with kGelu = 2·sqrt(2/π).
constexpr float kGelu = 1.5957691216057308F;
constexpr float kCube = 0.044715F;

__host__ __device__ inline float sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}

__host__ __device__ inline float swiglu(float gate, float up) {
  return gate * sigmoid(gate) * up;
}
__host__ __device__ inline float swiglu_gate_gradient(float dy, float gate, float up) {
  const float s = sigmoid(gate);
  return dy * up * s * (1.0F + gate * (1.0F - s));
}
__host__ __device__ inline float swiglu_up_gradient(float dy, float gate) {
  return dy * gate * sigmoid(gate);
}

__host__ __device__ inline float gelu(float x) {
  return x * sigmoid(kGelu * (x + kCube * x * x * x));
}
__host__ __device__ inline float gelu_gradient(float dy, float x) {
  const float s = sigmoid(kGelu * (x + kCube * x * x * x));
  const float slope = kGelu * (1.0F + 3.0F * kCube * x * x);
  return dy * (s + x * s * (1.0F - s) * slope);
}

__host__ __device__ inline float geglu(float gate, float up) {
  return gelu(gate) * up;
}
__host__ __device__ inline float geglu_gate_gradient(float dy, float gate, float up) {
  return gelu_gradient(dy * up, gate);
}
__host__ __device__ inline float geglu_up_gradient(float dy, float gate) {
  return dy * gelu(gate);
}

/// One AdamW update (Loshchilov & Hutter, arXiv:1711.05101) of `value` and its moments.
__host__ __device__ inline void adam_update(const AdamFactors& f, float gradient, float& moment1,
                                            float& moment2, float& value) {
  const float g = gradient * f.gradient_scale;
  moment1 = moment1 * f.keep1 + g * f.add1;
  moment2 = moment2 * f.keep2 + g * g * f.add2;
  value = value * f.decay - f.step * moment1 / (sqrtf(moment2) * f.root + f.epsilon);
}

/// One update of Lion (Chen et al. 2023, arXiv:2302.06675) of `value` and its momentum.
__host__ __device__ inline void lion_update(const LionFactors& f, float gradient, float& momentum,
                                            float& value) {
  const float g = gradient * f.gradient_scale;
  const float direction = momentum * f.keep1 + g * f.add1;
  const float sign = direction > 0 ? 1.0F : direction < 0 ? -1.0F : 0.0F;
  value = value * f.decay - sign * f.step;
  momentum = momentum * f.keep2 + g * f.add2;
}

}  // namespace plumbline::cuda
