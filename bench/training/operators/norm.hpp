// Norms of the residual stream, and of the results that are added to it.
#pragma once

#include "bench/training/layer/layer.hpp"
#include "bench/training/tape/tape.hpp"

namespace plumbline::training {

struct StreamNorm {
  NormVectors values{}, gradients{};  // without a weight the stream is read as it is, or quantized
  const char* holder = "";
  const char* statistics = "";
  Fp8Slot quantizer{};  // of the linear layers that alone read it
  double scale = 1;     // of its output
  bool repeats = false;
  /// Its output is kept until its own backward, though only weight gradients read it.
  bool keeps_output = false;
  /// The gradient of x where it has memory of its own; its category in a split backward.
  const char* gradient = "gradient of layer input";
  Category apart = Category::activations;
  /// A place for its backward, if it has to wait for another reader of the stream's gradient.
  std::size_t postponed_to = 0;
};

/// y = norm(x), (R, h).
Slot norm(Tape& tape, const StreamNorm& of, Slot x);

/// A sum of the stream, addend + result + bias, that the norm makes along with its output.
struct SumToNorm {
  Slot addend, result;
  Matrix bias;
};
/// y = norm(sum), where `sum` is the sum's value in the result's memory.
Slot norm_of_sum(Tape& tape, const StreamNorm& of, Slot sum, const SumToNorm& made_of);

/// The norm of a block's result (R, h) into `place`.
Slot result_norm(Tape& tape, const NormVectors& values, const NormVectors& gradients, Slot result,
                 Slot place);

}  // namespace plumbline::training
