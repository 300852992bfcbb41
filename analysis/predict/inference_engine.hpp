// Software that serves models: the parts of it that the prediction of task `generate` knows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

struct InferenceEngine {
  std::string_view name;           // a value of the key software (core/config/generation_config.hpp)
  bool batched_attention = false;  // one kernel for all sequences, which also writes the cache
  std::int64_t block_tokens = 1;   // of the paged KV cache: a sequence has whole blocks
  double memory_share = 1;         // of the device that it may use
  bool of_free = false;  // the share is of the memory besides weights and activations, for the cache
};

/// Names of those that are no frameworks for training.
std::vector<std::string> inference_engine_names();

/// plumbline's own for every other name.
const InferenceEngine& inference_engine(std::string_view software);

}  // namespace plumbline
