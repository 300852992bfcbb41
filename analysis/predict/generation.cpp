#include "analysis/predict/generation.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "analysis/memory/action_memory.hpp"
#include "analysis/memory/persistent_memory.hpp"
#include "analysis/predict/inference_engine.hpp"
#include "analysis/step/parameters.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/time/operator_time.hpp"
#include "analysis/work/generation_list.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

/// A training step's configuration with the same layers, for `seq` tokens of every sequence: its forward is
/// that of a pass.
RunConfig pass_of(const RunConfig& config, std::int64_t seq) {
  RunConfig pass = config;
  pass.generation.task = RunTask::train;
  pass.machine.software = "plumbline";  // the layers of engines are its
  pass.batch.seq_length = seq;
  pass.batch.global_batch_size = pass.batch.micro_batch_size * pass.parallel.data();
  pass.parallel.sequence_parallel = false;
  pass.parallel.tp.comm_overlap = false;
  pass.parallel.ep.overlap_comm = pass.parallel.ep.shared_expert_overlap = false;
  pass.parallel.dp.zero_stage = 0;
  pass.parallel.pp.virtual_chunks = 1;
  pass.recompute = {};
  pass.offload = {};
  pass.numerics.hidden_dropout = pass.numerics.attention_dropout = 0;
  pass.numerics.cross_entropy_loss_fusion = true;
  pass.numerics.attention_backend = AttentionBackend::fused;
  return pass;
}

/// Stages of a pass, with the windows of sequences of seq_length tokens.
std::vector<StageShape> shapes_of(const RunConfig& config, std::int64_t seq) {
  const int stages = config.parallel.pipeline;
  std::vector<StageShape> shapes = stage_shapes(pass_of(config, seq), stages);
  const std::vector<StageShape> whole = stage_shapes(pass_of(config, config.batch.seq_length), stages);
  for (std::size_t i = 0; i < shapes.size(); ++i) shapes[i].kinds = whole[i].kinds;
  return shapes;
}

/// Tokens of a sequence that the cache has room for.
std::int64_t in_blocks(const RunConfig& config) {
  const std::int64_t block = inference_engine(config.machine.software).block_tokens;
  return (config.batch.seq_length + block - 1) / block * block;
}

std::vector<GenerationMemory> rank_memories(const RunConfig& config) {
  std::vector<GenerationMemory> ranks;
  for (const StageShape& shape : shapes_of(config, config.prompt_tokens())) {
    const RunConfig pass = pass_of(config, config.prompt_tokens());
    const MemoryBreakdown held = held_bytes(shape, pass);
    StageShape teacher = shape;  // whose layers keep nothing, either
    teacher.distillation.on = teacher.distillation.hidden = true;
    const MemoryBreakdown passing = action_profile(teacher, ActionType::teacher_forward, false).peak;
    const std::int64_t logits =
        shape.place.last ? config.batch.micro_batch_size * shape.ends.vocab * shape.numerics.e() : 0;
    GenerationMemory rank;
    rank.pipeline_rank = static_cast<int>(ranks.size());
    rank.parameters = held[Category::parameters];
    rank.cache = kv_cache_bytes(shape, config.batch.micro_batch_size, in_blocks(config));
    rank.workspace =
        held[Category::workspace] + held[Category::communication] + passing.total() + Bytes{logits};
    ranks.push_back(rank);
  }
  return ranks;
}

/// Parameters that a pass of few tokens reads: of a looked-up embedding single rows, which do not count, and
/// experts that have tokens.
Bytes read_parameters(const StageShape& shape) {
  const StageParameters all = parameters_of(shape);
  std::int64_t read = all.layers + all.final_norm;
  if (shape.place.last) read += all.output > 0 ? all.output : all.embedding;
  const auto idle = [&](const StageShape& like) {
    const std::int64_t experts = like.mixture() ? like.local_experts() - like.mlp_rows() : 0;
    return std::max<std::int64_t>(0, experts) * like.stream.hidden * (like.mlp.fc1 + like.mlp.ffn);
  };
  return {(read - shape.over_layers(idle)) * shape.numerics.e()};
}

/// Tensor and data-parallel ranks compute at the same time; pipeline ranks in turn.
Load load_of(const RunConfig& config, const HardwareProfile& hardware, Bytes touched) {
  Load load;
  load.layout = config.layout();
  load.operands.apart = touched;
  const int processors = hardware.processors();
  if (processors == 0) return load;
  const int together = load.layout.tensor * load.layout.data;
  load.busy = processors > 1 ? std::min(1.0, (together - 1.0) / (processors - 1)) : 0;
  load.sharing = std::max(1.0, static_cast<double>(together) / processors);
  return load;
}

class Pricing {
 public:
  Pricing(const RunConfig& config, const HardwareProfile& hardware, std::vector<GenerationMemory> ranks)
      : config_(config), hardware_(hardware), ranks_(std::move(ranks)) {}

  /// One pass of `seq` new tokens behind `past` ones, through all stages; its lines, if wanted.
  Seconds pass(const std::vector<StageShape>& shapes, std::int64_t past, const std::string& phase,
               std::vector<CostLine>* lines) const {
    Seconds sum;
    for (const StageShape& shape : shapes) {
      const auto stage = static_cast<std::size_t>(shape.place.stage);
      const Load load = load_of(config_, hardware_, ranks_[stage].parameters + ranks_[stage].cache);
      std::vector<CostLine> own;
      CostLines explained(own, shape.place.stage, phase);
      for (const OperatorCall& call : generation_calls(shape, past, batched_)) {
        const Seconds time = time_of(call, hardware_, load) * load.sharing;
        explained.add(call, time);
        sum += time;
      }
      if (shapes.size() > 1) {
        const Seconds hop = message_after(shape);
        explained.add(shape.place.last ? "token to the first stage" : "pipeline message", 1, hop);
        sum += hop;
      }
      explained.add("host", 1, hardware_.action_overhead);
      sum += hardware_.action_overhead;
      if (lines != nullptr) lines->insert(lines->end(), own.begin(), own.end());
    }
    return sum;
  }

  /// Least time of a decoding step: reading parameters and cache.
  Seconds bound(const std::vector<StageShape>& shapes, std::int64_t length) const {
    if (hardware_.memory_bandwidth.value <= 0) return {};
    Seconds sum;
    for (const StageShape& shape : shapes) {
      const Bytes cache = kv_cache_bytes(shape, config_.batch.micro_batch_size, length);
      sum += (read_parameters(shape) + cache) / hardware_.memory_bandwidth;
    }
    return sum;
  }

 private:
  /// A stage's output to the next stage, or the last stage's new tokens to the first.
  Seconds message_after(const StageShape& shape) const {
    const Layout layout = config_.layout();
    const Bytes bytes = shape.place.last
                            ? Bytes{4 * shape.stream.batch}
                            : Bytes{shape.stream.rows * shape.stream.hidden * shape.numerics.e()};
    const int here = pipeline_ranks_per_node(hardware_, layout);
    const bool leaves = here > 0 && (shape.place.last || (shape.place.stage + 1) % here == 0);
    return message_time(hardware_, layout.world(), bytes, leaves);
  }

  const RunConfig& config_;
  const HardwareProfile& hardware_;
  const std::vector<GenerationMemory> ranks_;
  const bool batched_ = inference_engine(config_.machine.software).batched_attention;
};

/// Bytes that an engine leaves for a rank's cache.
double room_for_cache(const GenerationMemory& rank, const InferenceEngine& engine, Bytes limit) {
  const auto all = static_cast<double>(limit.value);
  const auto others = static_cast<double>((rank.total() - rank.cache).value);
  return engine.of_free ? engine.memory_share * (all - others) : engine.memory_share * all - others;
}

/// Tokens of all sequences that the cache of every rank has room for, in whole blocks.
std::int64_t cache_tokens(const RunConfig& config, const std::vector<GenerationMemory>& ranks, Bytes limit) {
  const InferenceEngine& engine = inference_engine(config.machine.software);
  const auto wanted = static_cast<double>(config.batch.micro_batch_size * in_blocks(config));
  double tokens = std::numeric_limits<double>::max();
  for (const GenerationMemory& rank : ranks) {
    if (rank.cache.value == 0) continue;
    tokens = std::min(tokens,
                      wanted * room_for_cache(rank, engine, limit) / static_cast<double>(rank.cache.value));
  }
  const auto whole = static_cast<std::int64_t>(std::max(tokens, 0.0));
  return whole / engine.block_tokens * engine.block_tokens;
}

/// Steps whose times are computed; those in between are interpolated, since attention's time is linear in
/// the length.
constexpr std::int64_t kSampledSteps = 9;

GenerationTime time_of_generation(const RunConfig& config, const HardwareProfile& hardware,
                                  const std::vector<GenerationMemory>& ranks, std::vector<CostLine>& lines) {
  const Pricing pricing(config, hardware, ranks);
  const std::int64_t prompt = config.prompt_tokens();
  GenerationTime time;
  time.prefill = pricing.pass(shapes_of(config, prompt), 0, "prefill", &lines);
  const std::int64_t steps = config.generation.max_new_tokens - 1;
  time.total = time.prefill;
  if (steps == 0) return time;
  const std::vector<StageShape> shapes = shapes_of(config, 1);
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

Bytes kv_cache_bytes(const StageShape& shape, std::int64_t sequences, std::int64_t length) {
  std::int64_t tokens = 0;  // of a sequence, over the layers
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::int64_t window = shape.kind_of(layer).window;
    tokens += window > 0 ? std::min(window, length) : length;
  }
  return {tokens * (shape.attention.k + shape.attention.values()) * sequences * shape.numerics.e()};
}

GenerationPrediction predict_generation(const RunConfig& config, const HardwareProfile& hardware) {
  if (const auto reason = why_generation_invalid(config)) throw InputError(*reason);
  GenerationPrediction prediction;
  prediction.guessed = hardware.guessed();
  prediction.ranks = rank_memories(config);
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
