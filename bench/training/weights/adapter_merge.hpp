// Adapters of LoRA added to the weights they belong to: W + s·B·A.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "bench/training/weights/weights.hpp"

namespace plumbline::training {

/// Takes a model's tensors in gather_weights' order, weights before their adapters, and gives back whole
/// weights.
class AdapterMerge {
 public:
  /// `sink` gets every tensor of the model; `transposed`: files store linear layers (in, out).
  AdapterMerge(double scale, bool transposed, std::function<void(NamedTensor&&)> sink)
      : scale_(scale), transposed_(transposed), sink_(std::move(sink)) {}

  void take(NamedTensor&& tensor);
  /// After the last tensor: passes on weights without an adapter.
  void finish();

 private:
  void add(NamedTensor& weight, const NamedTensor& a, const NamedTensor& b) const;

  const double scale_;
  const bool transposed_;
  const std::function<void(NamedTensor&&)> sink_;
  std::map<std::string, NamedTensor> weights_;  // of the layer that passes, by module
  std::map<std::string, NamedTensor> a_;        // by module
};

}  // namespace plumbline::training
