// The micro-batches that a stage holds something of.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bench/training/ends/embedding_norm.hpp"
#include "bench/training/ends/output_end.hpp"
#include "bench/training/layer/layer.hpp"
#include "bench/training/stage/prediction_modules.hpp"

namespace plumbline::training {

struct MicrobatchState {
  std::vector<LayerActivations> layers;
  std::vector<std::vector<Tensor>> on_host;  // of offloaded layers, the tensors on the host
  EmbeddedTokens embedded;                   // first stage, with a norm after the embedding
  Tensor input_mask;                         // first stage: mask of the embedding's output
  OutputActivations output;                  // last stage
  std::vector<ModuleActivations> modules;    // likewise
  Tensor output_gradient;                    // of the stage
};

/// States are reused: taking and giving back one allocates nothing once the pipeline is full.
class InFlight {
 public:
  InFlight(int microbatches, std::int64_t layers, std::int64_t modules)
      : states_(static_cast<std::size_t>(microbatches)),
        layers_(static_cast<std::size_t>(layers)),
        modules_(static_cast<std::size_t>(modules)) {}

  /// The state of a micro-batch, a fresh one when there is none.
  MicrobatchState& at(std::uint32_t microbatch) {
    std::unique_ptr<MicrobatchState>& state = states_[microbatch];
    if (!state && !unused_.empty()) {
      state = std::move(unused_.back());
      unused_.pop_back();
    } else if (!state) {
      state = std::make_unique<MicrobatchState>();
      state->layers.resize(layers_);
      state->modules.resize(modules_);
    }
    return *state;
  }
  bool holds(std::uint32_t microbatch) const { return states_[microbatch] != nullptr; }
  /// All tensors of the state must be gone.
  void release(std::uint32_t microbatch) { unused_.push_back(std::move(states_[microbatch])); }

 private:
  std::vector<std::unique_ptr<MicrobatchState>> states_;
  std::vector<std::unique_ptr<MicrobatchState>> unused_;
  std::size_t layers_;
  std::size_t modules_;
};

}  // namespace plumbline::training
