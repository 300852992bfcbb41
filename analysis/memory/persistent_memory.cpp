#include "analysis/memory/persistent_memory.hpp"

#include <algorithm>

#include "analysis/memory/framework_memory.hpp"
#include "analysis/step/parameters.hpp"
#include "analysis/work/parameter_units.hpp"

namespace plumbline {
namespace {

/// Bytes that linear layers in FP8 take for the whole run (bench/training/fp8.md); 0 without.
struct HeldQuantized {
  std::int64_t weights = 0;  // and their transposes; ZeRO 3 quantizes them when they are used
  std::int64_t scales = 0;   // of all slots, with their largest values
};

/// Number of a layer's linear layers: two of attention (latent attention four), and two of the feed-forward
/// part (with experts two of each and of a shared one).
std::int64_t linear_layer_count(const StageShape& s) {
  const std::int64_t attention = s.attention.latent() ? 4 : 2;
  return attention + (s.mixture() ? 2 * s.local_experts() + (s.moe.shared > 0 ? 2 : 0) : 2);
}

/// Elements of their matrices: all but a router and the gate of a shared expert.
std::int64_t linear_matrices(const StageShape& s) {
  const std::int64_t gate = s.mixture() && s.moe.shared > 0 && s.moe.shared_gated ? s.stream.hidden : 0;
  return layer_matrices(s) - s.moe.experts * s.stream.hidden - gate;
}

HeldQuantized held_quantized(std::span<const StageShape> stages) {
  HeldQuantized held;
  for (const StageShape& s : stages) {
    if (!s.numerics.fp8) continue;
    const std::int64_t slots = 3 * (s.over_layers(linear_layer_count) + s.over_modules(linear_layer_count));
    if (s.sharding.zero < 3)
      held.weights += 2 * (s.over_layers(linear_matrices) + s.over_modules(linear_matrices));
    held.scales += (2 + 1 + s.numerics.fp8_history) * slots * 4;  // scale, 1/scale, largest value
  }
  return held;
}

std::int64_t padded(std::int64_t x, std::int64_t multiple) {
  return (x + multiple - 1) / multiple * multiple;
}

/// The largest divisor of `whole` that is at most `bound`, or 1.
std::int64_t divisor_below(std::int64_t whole, std::int64_t bound) {
  for (std::int64_t part = std::min(whole, bound); part > 1; --part) {
    if (whole % part == 0) return part;
  }
  return 1;
}

/// Workspace of cuDNN's backward, in bytes: kernels/cuda/README.md, "Attention".
struct HeadsAtWork {
  const StageShape& s;
  std::int64_t shared_by;  // query heads of a key/value head
  std::int64_t kv_heads;

  static constexpr Bytes kAtOnce = kMiB * 256;
  static constexpr std::int64_t kRest = 2048;

  /// Key/value heads of all sequences that fit one pass, of `each` bytes.
  std::int64_t at_once(std::int64_t each) const {
    const std::int64_t fit = kAtOnce.value / each;
    const std::int64_t of_sequence = divisor_below(kv_heads, fit);
    return of_sequence < kv_heads ? of_sequence : kv_heads * divisor_below(s.stream.batch, fit / kv_heads);
  }
  std::int64_t bytes() const {
    const std::int64_t of_queries = (s.stream.seq + padded(s.stream.seq, 8)) * s.attention.head_dim;
    const std::int64_t of_keys = shared_by > 1 ? s.stream.seq * s.attention.head_dim : 0;
    const std::int64_t each = 4 * shared_by * (of_queries + s.stream.seq + of_keys);
    return at_once(each) * each + kRest;
  }
  std::int64_t deterministic_bytes() const {
    const std::int64_t scores = 2 * padded(s.stream.seq, 64) * padded(s.stream.seq, 128);  // of a query head
    std::int64_t query_heads = 0;
    std::int64_t apart = 1;  // pieces of a key/value head's query heads
    if (shared_by * scores <= kGiB.value) {
      query_heads = at_once(shared_by * scores) * shared_by;
    } else if (scores <= kGiB.value) {
      query_heads = divisor_below(shared_by, kAtOnce.value / scores);
      apart = shared_by / query_heads;
    } else {
      return kRest;  // the forward's
    }
    const bool adds_up = apart > 1 ? query_heads > 1 : shared_by > 1;
    const std::int64_t matrix = 4 * s.stream.seq * s.attention.head_dim;
    return query_heads * (scores + 4 * s.stream.seq) + (adds_up ? query_heads * matrix : 0) +
           (apart > 1 ? apart * matrix : 0) + kRest;
  }
};

/// Scratch of the CUDA operators (kernels/cuda/README.md): of one chunk with a CP ring; of whole sequences
/// and a share of the heads after a head exchange.
std::int64_t cuda_attention_scratch(const StageShape& s) {
  const std::int64_t heads = s.attention.heads / s.cp.head_ranks;
  const std::int64_t kv_heads = s.attention.kv_heads / s.cp.head_ranks;
  if (s.cp.ring() > 1) return heads * s.ring_chunk();
  const std::int64_t statistics = s.stream.batch * heads * s.stream.seq;
  if (s.numerics.type == DType::fp32 || s.stream.seq == 1 || s.attention.head_dim % 8 != 0 ||
      s.attention.head_dim > 256)
    return statistics;
  if (s.attention.latent() &&
      (s.attention.value_dim > s.attention.head_dim || s.attention.value_dim % 8 != 0))
    return statistics;
  const HeadsAtWork work{s, heads / kv_heads, kv_heads};
  const std::int64_t bytes = s.numerics.deterministic ? work.deterministic_bytes() : work.bytes();
  return std::max(statistics, bytes / 4);
}

/// fp32 and int32 buffers of optional modules at the ends: row sums of the output layer, rows of both
/// position tables.
std::int64_t held_by_ends(const StageShape& s) {
  std::int64_t elements = 0;
  if (s.place.last && s.ends.normed_output) elements += 2 * s.ends.outputs;
  if (s.place.first && s.ends.block_positions && s.ends.positions > 0) elements += 2 * s.stream.tokens;
  return elements;
}

/// Elements of a rank's secondary shards: of all units but experts that are spread over ranks and shards of
/// the vocabulary.
std::int64_t secondary_elements(const StageShape& s) {
  std::int64_t elements = 0;
  for (const ParameterUnit& unit : units_of(s)) {
    if (unit.group != Group::expert_data && !unit.of_passes(s))
      elements += unit.padded / s.sharding.secondary_shards;
  }
  return elements;
}

/// Bytes of the numbers that routers add to their scores.
std::int64_t expert_biases(const StageShape& s) {
  const auto biases = [](const StageShape& like) { return like.moe.expert_bias ? like.moe.experts : 0; };
  return 4 * (s.over_layers(biases) + s.over_modules(biases));
}

}  // namespace

std::int64_t attention_scratch_elements(const StageShape& shape) {
  StageShape s = shape;
  if (s.cp.dynamic) {  // the most that a rank has of a conversation is one of its own
    s.stream.seq /= s.cp.ranks;
    s.cp = {};
  }
  if (s.numerics.cuda) return cuda_attention_scratch(s);
  const bool whole = s.cp.ring() == 1;
  const std::int64_t chunk = whole ? s.stream.seq : s.ring_chunk();
  const std::int64_t rows = std::min<std::int64_t>(128, chunk);
  const std::int64_t keys = s.cp.comm_type == CpCommType::all_gather ? s.stream.seq : chunk;
  const std::int64_t values = s.attention.latent() ? s.attention.value_dim : s.attention.head_dim;
  return 2 * rows * keys + 2 * keys * (s.attention.head_dim + values) +
         rows * (s.attention.head_dim + values + std::max(s.attention.head_dim, values)) + rows;
}

MemoryBreakdown held_bytes(std::span<const StageShape> stages, const RunConfig& config,
                           std::span<const StageShape> teachers) {
  MemoryBreakdown held;
  if (stages.empty()) return held;
  if (!stages.front().traits.own_lists) return framework_held_bytes(stages);
  std::int64_t expert_bias_bytes = 0;
  std::int64_t whole = 0;          // elements, padding included
  std::int64_t trained_whole = 0;  // of these, with gradients
  std::int64_t owned = 0;          // of them by this data-parallel rank
  std::int64_t of_layers = 0;      // of those with states, in matrices of layers
  std::int64_t secondary = 0;
  std::int64_t buffers = 0;
  std::int64_t of_ends = 0;
  std::int64_t ahead = 0;  // token ids of modules: inputs, targets
  bool first = false;
  bool last = false;
  for (const StageShape& s : stages) {
    const StageElements elements = elements_of(s);
    whole += elements.whole();
    const StageElements trained = trained_elements_of(s);
    trained_whole += trained.whole();
    owned += trained.owned();
    of_layers +=
        s.sharding.zero >= 1 ? trained.pieces - trained.other_pieces : trained.matrices - trained.others;
    if (s.sharding.keeps_secondary_shards()) secondary += secondary_elements(s);
    const bool sends_forward = !s.place.last && !s.place.next_here;
    const bool sends_backward = !s.place.first && !s.place.previous_here;
    const std::int64_t here = (sends_forward ? 1 : 0) + (sends_backward ? 1 : 0);
    const std::int64_t width = s.stream.hidden + (s.distillation.joint ? s.distillation.teacher_hidden : 0);
    buffers += here * s.stream.rows * width;
    if (s.distillation.on && !s.distillation.joint && sends_forward) {
      buffers += s.stream.rows * s.distillation.teacher_hidden;
    }
    of_ends += held_by_ends(s);
    expert_bias_bytes += expert_biases(s);
    ahead += 2 * s.own_modules();
    first = first || s.place.first;
    last = last || s.place.last;
  }
  const StageShape& any = stages.front();
  const HeldQuantized quantized = held_quantized(stages);
  held[Category::parameters].value =
      ((any.sharding.zero >= 3 ? owned : whole) + secondary) * any.numerics.e() + quantized.weights +
      expert_bias_bytes;
  held[Category::gradients].value = (any.sharding.zero >= 2 ? owned : trained_whole) * any.numerics.g();
  const std::int64_t master = any.numerics.type == DType::fp32 ? 0 : 1;
  const std::int64_t moments = config.optimizer.moments(ParameterClass::other);
  const std::int64_t fewer = moments - config.optimizer.moments(ParameterClass::matrix);
  held[Category::optimizer].value =
      4 * ((any.sharding.zero >= 1 ? owned : trained_whole) * (moments + master) - fewer * of_layers);
  std::int64_t token_ids = (first ? 1 : 0) + (last ? 1 : 0) + ahead;  // inputs, targets
  held[Category::communication].value = buffers * any.numerics.e();
  if (any.vocabulary.split) {
    token_ids = 2;
    const std::int64_t stream = any.stream.tokens * any.stream.hidden;
    std::int64_t bytes = any.vocabulary.first_rank ? 0 : 2 * stream * any.numerics.e();
    if (any.vocabulary.two_barriers && !any.vocabulary.last_rank) bytes += 2 * stream * 4;  // dX
    held[Category::communication].value += bytes;
  }

  const auto rotary_tables = [](const StageShape& s) {
    const std::int64_t part = 2 * (s.stream.seq / s.cp.ranks) * (s.attention.rotated / 2);
    return s.cp.dynamic ? s.cp.ranks * part : part;  // conversations take the rows of their positions
  };
  std::int64_t rotary = rotary_tables(any);
  std::int64_t scratch = attention_scratch_elements(any);
  if (!teachers.empty()) {
    rotary += rotary_tables(teachers.front());
    scratch = std::max(scratch, attention_scratch_elements(teachers.front()));
    for (const StageShape& teacher : teachers) {
      held[Category::teacher].value +=
          parameters_of(teacher).total() * teacher.numerics.e() + expert_biases(teacher);
      of_ends += held_by_ends(teacher);
    }
  }
  token_ids *= config.microbatches() * any.stream.tokens;
  held[Category::workspace].value = 4 * (rotary + token_ids + scratch + of_ends) + quantized.scales;
  return held;
}

MemoryBreakdown held_bytes(const StageShape& shape, const RunConfig& config) {
  return held_bytes(std::span<const StageShape>(&shape, 1), config);
}

}  // namespace plumbline
