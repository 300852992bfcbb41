// Linear layers of a decoder layer, tensor-parallel in Megatron's way (arXiv:1909.08053 §3): column-parallel
// ones read the residual stream, row-parallel ones make results for it.
#pragma once

#include "bench/training/layer/layer.hpp"
#include "bench/training/tape/tape.hpp"

namespace plumbline::training {

/// A layer's linear layer, in the storage type or FP8, frozen with an adapter or not.
struct LayerLinear {
  const Layer* layer = nullptr;
  LinearWeight LayerWeights::*weight = nullptr;
  Matrix LayerMatrices::*matrix = nullptr;
  Adapter LayerAdapters::*adapter = nullptr;
  const Fp8Linear* fp8 = nullptr;
  Matrix bias{}, bias_gradient{};
  std::int64_t LayerWidths::*width = nullptr;  // of y, if column-parallel; of x, if row-parallel
  const char* holder = "";                     // of y, or of a result beside the stream
  const char* gradient = "";                   // of x
  const char* quantized_gradient = "";         // of y
};
LayerLinear qkv_linear(const Layer& layer);
LayerLinear projection(const Layer& layer);
LayerLinear fc1_linear(const Layer& layer);
LayerLinear fc2_linear(const Layer& layer);

/// y = x·Wᵀ + b, (T, width): x (R, h) is gathered over the tensor ranks. `repeats`: recomputed by module.
Slot column_linear(Tape& tape, const LayerLinear& of, Slot x, bool repeats = false);

/// x·Wᵀ summed over the tensor ranks, (R, h): into `place`, or beside it. The bias is the sum's that follows.
Slot row_linear(Tape& tape, const LayerLinear& of, Slot x, Slot place, bool beside);

}  // namespace plumbline::training
