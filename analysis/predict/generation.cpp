#include "analysis/predict/generation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "analysis/serving/generation_pricing.hpp"
#include "analysis/serving/inference_engine.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

/// Tokens of all sequences that the cache of every rank has room for, in whole blocks.
std::int64_t cache_tokens(const RunConfig& config, const std::vector<GenerationMemory>& ranks, Bytes limit) {
  const InferenceEngine& engine = inference_engine(config.machine.software);
  const auto wanted = static_cast<double>(config.batch.micro_batch_size * cached_tokens_per_sequence(config));
  double tokens = std::numeric_limits<double>::max();
  for (const GenerationMemory& rank : ranks) {
    if (rank.cache.value == 0) continue;
    tokens = std::min(tokens, wanted * room_for_cache(config, 0, limit, rank.parameters, rank.workspace) /
                                  static_cast<double>(rank.cache.value));
  }
  const auto whole = static_cast<std::int64_t>(std::max(tokens, 0.0));
  return whole / engine.block_tokens * engine.block_tokens;
}

/// Working sets of the ranks.
std::vector<Bytes> touched_bytes(const std::vector<GenerationMemory>& ranks) {
  std::vector<Bytes> touched;
  touched.reserve(ranks.size());
  for (const GenerationMemory& rank : ranks) touched.push_back(rank.parameters + rank.cache);
  return touched;
}

/// Steps whose times are computed; those in between are interpolated, since attention's time is linear in
/// the length.
constexpr std::int64_t kSampledSteps = 9;

GenerationTime time_of_generation(const RunConfig& config, const HardwareProfile& hardware,
                                  const std::vector<GenerationMemory>& ranks, std::vector<CostLine>& lines) {
  const GenerationPricing pricing(config, hardware, touched_bytes(ranks));
  const std::int64_t prompt = config.prompt_tokens();
  GenerationTime time;
  time.prefill = pricing.pass(generation_shapes(config, prompt), 0, "prefill", &lines);
  const std::int64_t steps = config.generation.max_new_tokens - 1;
  time.total = time.prefill;
  if (steps == 0) return time;
  const std::vector<StageShape> shapes = generation_shapes(config, 1);
  const std::int64_t points = std::min(kSampledSteps, steps);
  Seconds sum;
  double weights = 0;
  for (std::int64_t i = 0; i < points; ++i) {
    const std::int64_t past = prompt + (points > 1 ? i * (steps - 1) / (points - 1) : 0);
    const bool middle = i == points / 2;
    const Seconds step = pricing.pass(shapes, past, "decode", middle ? &lines : nullptr);
    // Trapezoids: the ends count half.
    const double weight = points > 2 && (i == 0 || i == points - 1) ? 0.5 : 1;
    sum += step * weight;
    weights += weight;
    if (i == 0 || middle || i == points - 1)
      time.decode.push_back({past + 1, step, pricing.bound(shapes, past + 1)});
  }
  time.decode_mean = sum / weights;
  time.total += time.decode_mean * static_cast<double>(steps);
  return time;
}

}  // namespace

DecodeTime decode_step(const RunConfig& config, const HardwareProfile& hardware, std::int64_t sequences,
                       std::int64_t length) {
  if (sequences < 1 || length < 2) {
    throw InputError(fmt::format("sequences, length: found {}, {}, expected 1 and 2 at least; change them",
                                 sequences, length));
  }
  RunConfig step = config;
  step.batch.micro_batch_size = sequences;
  step.batch.global_batch_size = sequences * config.parallel.data();
  step.batch.seq_length = std::max(config.batch.seq_length, length);
  if (const auto reason = why_generation_invalid(step)) throw InputError(*reason);
  const std::vector<GenerationMemory> ranks = generation_memory(step);
  const GenerationPricing pricing(step, hardware, touched_bytes(ranks));
  const std::vector<StageShape> shapes = generation_shapes(step, 1);
  return {length, pricing.pass(shapes, length - 1, "decode", nullptr), pricing.bound(shapes, length)};
}

GenerationPrediction predict_generation(const RunConfig& config, const HardwareProfile& hardware) {
  if (const auto reason = why_generation_invalid(config)) throw InputError(*reason);
  GenerationPrediction prediction;
  prediction.guessed = hardware.guessed();
  prediction.ranks = generation_memory(config);
  const auto larger = [](const GenerationMemory& a, const GenerationMemory& b) {
    return a.total() < b.total();
  };
  const auto peak = std::max_element(prediction.ranks.begin(), prediction.ranks.end(), larger);
  prediction.peak_rank = peak->pipeline_rank;
  const Bytes budget = config.machine.memory_budget;
  prediction.limit = budget.value > 0 ? budget : hardware.memory;
  prediction.fits = prediction.limit.value == 0 || peak->total() <= prediction.limit;
  if (is_inference_engine(config.machine.software) && prediction.limit.value > 0)
    prediction.cache_tokens = cache_tokens(config, prediction.ranks, prediction.limit);
  prediction.time = time_of_generation(config, hardware, prediction.ranks, prediction.lines);
  const auto sequences = static_cast<double>(config.batch.micro_batch_size * config.parallel.data());
  const auto fresh = static_cast<double>(config.generation.max_new_tokens);
  prediction.throughput.tokens_per_s = sequences * fresh / prediction.time.total.value;
  prediction.throughput.tokens_per_s_per_gpu =
      prediction.throughput.tokens_per_s / config.parallel.world_size;
  if (prediction.time.decode_mean.value > 0)
    prediction.throughput.decode_tokens_per_s = sequences / prediction.time.decode_mean.value;
  return prediction;
}

}  // namespace plumbline
