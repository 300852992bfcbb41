#include "analysis/predict/inference_engine.hpp"

#include <algorithm>
#include <iterator>

#include "core/config/generation_config.hpp"

namespace plumbline {
namespace {

constexpr InferenceEngine kEngines[] = {
    {.name = "plumbline"},
    // Kernels of decoding take all sequences (docs/source/gpt_attention.md). free_gpu_memory_fraction is 0.9
    // by default (docs, kvcacheconfig). The size of a block is a setting, which is left out.
    {"tensorrt-llm", true, 1, 0.9, true},
    // PagedAttention (Kwon et al. 2023, arXiv:2309.06180): one kernel, blocks of 16 tokens.
    // gpu_memory_utilization is 0.9 by default (vLLM docs, engine arguments).
    {"vllm", true, 16, 0.9, false},
};

}  // namespace

std::vector<std::string> inference_engine_names() {
  std::vector<std::string> names;
  for (const InferenceEngine& engine : kEngines) {
    if (is_inference_engine(engine.name)) names.emplace_back(engine.name);
  }
  return names;
}

const InferenceEngine& inference_engine(std::string_view software) {
  const auto* found = std::find_if(std::begin(kEngines), std::end(kEngines),
                                   [&](const InferenceEngine& each) { return each.name == software; });
  return found == std::end(kEngines) ? kEngines[0] : *found;
}

}  // namespace plumbline
