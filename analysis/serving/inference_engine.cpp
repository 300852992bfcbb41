#include "analysis/serving/inference_engine.hpp"

#include <algorithm>
#include <iterator>

#include "core/config/generation_config.hpp"

namespace plumbline {
namespace {

// Between decoding steps of one sequence: 0.9 ms before vLLM 0.8, 0.7 ms after. Llama 3 8B on an H100
// takes 7.58 and 7.38 ms per token (vLLM pull requests 10933, 11000; 11078 names the GPU), of which
// kernels at ServingRates take 6.65. Each sequence more: 5 to 6 ms for 256 of them (vLLM issue 10634).
// 0.8 to 0.13 process results in another process; its scheduler takes 12.7 us per sequence
// (openfabric-systems/simllm pull request 204).
constexpr EngineHost kVllmV0 = {0.9e-3, 1.7e-5, 8e-6};
constexpr EngineHost kVllmV1 = {0.7e-3, 1.27e-5, 0};
// Launch of an eager PyTorch operator: 8 us, as in analysis/hardware/software.json (torchtitan). SGLang
// prepares the next step while one runs (0.4, LMSYS blog "zero-overhead batch scheduler").
constexpr EngineHost kSglang = {0, 0, 8e-6};

constexpr InferenceEngine kEngines[] = {
    {.name = "plumbline"},
    // mem_fraction_static: server_args.py, version 0.5. Pages of one token.
    {"sglang", true, 1, 0, false, true, kSglang},
    // Kernels of decoding take all sequences (docs/source/gpt_attention.md). free_gpu_memory_fraction is
    // 0.9 by default (docs, kvcacheconfig). The size of a block is a setting, which is left out.
    {"tensorrt-llm", true, 1, 0.9, true, false, {}},
    // PagedAttention (Kwon et al. 2023, arXiv:2309.06180): one kernel, blocks of 16 tokens.
    // gpu_memory_utilization is 0.9 by default (vLLM docs, engine arguments). From 0.14 on the next step is
    // scheduled while one runs (pull request 27614).
    {"vllm", true, 16, 0.9, false, false, {}},
    {"vllm-v0", true, 16, 0.9, false, false, kVllmV0},
    {"vllm-v1", true, 16, 0.9, false, false, kVllmV1},
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

Bytes sglang_reserve(Bytes memory, int gpus) {
  // server_args.py: 512 MiB, 1.5 MiB per token of a prefill chunk (8192, from 160 GiB on 16,384), 1 GiB
  // per 8 GPUs, 2 MiB per sequence of the largest CUDA graph (256, from 160 GiB on 512); 10 GiB at least
  // on devices of more than 60 GiB.
  constexpr double kMib = 1 << 20;
  const auto mib = static_cast<double>(memory.value) / kMib;
  const bool large = mib >= 160 * 1024;
  const double reserved = 512 + 1.5 * (large ? 16'384 : 8192) + gpus * 128.0 + 2 * (large ? 512 : 256);
  const double least = mib > 60 * 1024 ? 10 * 1024 : 0;
  return {static_cast<std::int64_t>(std::max(reserved, least) * kMib)};
}

double room_for_cache(const RunConfig& config, double share, Bytes limit, Bytes parameters, Bytes workspace) {
  const InferenceEngine& engine = inference_engine(config.machine.software);
  const auto all = static_cast<double>(limit.value), weights = static_cast<double>(parameters.value);
  if (engine.reserves) {  // its share has no workspace
    const Bytes reserve = sglang_reserve(limit, config.parallel.tensor * config.parallel.pipeline);
    return (share > 0 ? share * all : all - static_cast<double>(reserve.value)) - weights;
  }
  const double others = weights + static_cast<double>(workspace.value);
  const double used = share > 0 ? share : engine.memory_share;
  return engine.of_free ? used * (all - others) : used * all - others;
}

}  // namespace plumbline
