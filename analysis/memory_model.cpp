#include "analysis/memory_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"

namespace plumbline {
namespace {

/// Replays an action's allocations and frees and keeps the first moment of the largest total.
class Replay {
 public:
  void take(Category category, std::int64_t bytes) {
    now_[category] += Bytes{bytes};
    total_ += bytes;
    if (total_ > peak_total_) {
      peak_total_ = total_;
      peak_ = now_;
    }
  }
  void give(Category category, std::int64_t bytes) {
    now_[category] -= Bytes{bytes};
    total_ -= bytes;
  }
  ActionProfile profile() const { return {now_, peak_}; }

 private:
  MemoryBreakdown now_;
  MemoryBreakdown peak_;
  std::int64_t total_ = 0;
  std::int64_t peak_total_ = 0;
};

constexpr Category kActivations = Category::activations;
constexpr Category kWorkspace = Category::workspace;

/// Bytes of the tensors that the description names, for one micro-batch.
struct TensorBytes {
  std::int64_t stream;      // T·h: block inputs, norm outputs, gradients of them
  std::int64_t statistics;  // of one norm
  std::int64_t qkv;
  std::int64_t attention;  // T·q
  std::int64_t lse;
  std::int64_t fc1;
  std::int64_t activation;  // T·F
  std::int64_t logits;
  std::int64_t partial_sums;  // fp32, of a product that is summed over tensor ranks

  explicit TensorBytes(const StageShape& s)
      : stream(s.tokens * s.hidden * s.e()),
        statistics(s.norm_rows * s.tokens * 4),
        qkv(s.tokens * (s.q + 2 * s.k) * s.e()),
        attention(s.tokens * s.q * s.e()),
        lse(s.heads * s.tokens * 4),
        fc1(s.tokens * s.fc1 * s.e()),
        activation(s.tokens * s.ffn * s.e()),
        logits(s.tokens * s.vocab * s.e()),
        partial_sums(s.tensor > 1 && s.e() < 4 ? s.tokens * s.hidden * 4 : 0) {}
};

/// A product that is summed over the tensor ranks in fp32 before it is rounded into its tensor.
void sum_over_tensor_ranks(const TensorBytes& bytes, Replay& replay) {
  replay.take(kWorkspace, bytes.partial_sums);
  replay.give(kWorkspace, bytes.partial_sums);
}

void forward(const StageShape& s, Replay& replay) {
  const TensorBytes bytes(s);
  if (s.first) replay.take(kActivations, bytes.stream);
  for (std::int64_t layer = 0; layer < s.layers; ++layer) {
    replay.take(kActivations, bytes.stream + bytes.statistics);  // first norm
    replay.take(kActivations, bytes.qkv);
    replay.take(kActivations, bytes.attention + bytes.lse);
    replay.take(kActivations, bytes.stream);  // x2
    sum_over_tensor_ranks(bytes, replay);
    replay.take(kActivations, bytes.stream + bytes.statistics);  // second norm
    replay.take(kActivations, bytes.fc1);
    replay.take(kActivations, bytes.activation);
    const bool into_send_buffer = layer == s.layers - 1 && !s.last;
    if (!into_send_buffer) replay.take(kActivations, bytes.stream);  // y
    sum_over_tensor_ranks(bytes, replay);
  }
  if (s.last) {
    replay.take(kActivations, bytes.stream + bytes.statistics);  // final norm
    replay.take(Category::logits, bytes.logits);
    replay.take(kWorkspace, 3 * s.tokens * 4);  // loss statistics
    replay.give(kWorkspace, 3 * s.tokens * 4);
  }
}

void layer_backward(const StageShape& s, const TensorBytes& bytes, Replay& replay) {
  replay.take(kWorkspace, bytes.activation);  // dact
  replay.give(kActivations, bytes.activation);
  if (s.swiglu) {
    replay.take(kWorkspace, bytes.fc1);  // dfc1
    replay.give(kWorkspace, bytes.activation);
  }
  replay.give(kActivations, bytes.fc1);
  replay.take(kWorkspace, bytes.stream);  // dn
  sum_over_tensor_ranks(bytes, replay);
  replay.give(kWorkspace, bytes.fc1);  // dfc1 (with GELU, dact in its place: as large)
  replay.give(kActivations, bytes.stream);
  replay.give(kWorkspace, bytes.stream);
  replay.give(kActivations, bytes.stream + bytes.statistics);  // x2 and the second norm's statistics
  replay.take(kWorkspace, bytes.attention);                    // dattn
  replay.take(kWorkspace, bytes.qkv);                          // dqkv
  replay.give(kWorkspace, bytes.attention);
  replay.give(kActivations, bytes.attention + bytes.lse + bytes.qkv);
  replay.take(kWorkspace, bytes.stream);  // dn
  sum_over_tensor_ranks(bytes, replay);
  replay.give(kWorkspace, bytes.qkv);
  replay.give(kActivations, bytes.stream);  // first norm output
  replay.give(kWorkspace, bytes.stream);
  replay.give(kActivations, bytes.stream + bytes.statistics);  // x and the first norm's statistics
}

void backward(const StageShape& s, Replay& replay) {
  const TensorBytes bytes(s);
  if (s.last) {
    replay.take(kWorkspace, bytes.stream);  // dnorm
    sum_over_tensor_ranks(bytes, replay);
    replay.give(Category::logits, bytes.logits);
    if ((s.first && s.last)) replay.take(kWorkspace, bytes.stream);  // G
    replay.give(kWorkspace, bytes.stream);
    replay.give(kActivations, 2 * bytes.stream + bytes.statistics);  // final norm output, input, statistics
  }
  for (std::int64_t layer = 0; layer < s.layers; ++layer) layer_backward(s, bytes, replay);
  if ((s.first && s.last)) replay.give(kWorkspace, bytes.stream);
}

void optimizer(const StageShape& s, Replay& replay) {
  if (!s.shared_kv) return;
  // Gradients of key/value heads that several tensor ranks hold are gathered, one layer at a time.
  const std::int64_t gathered = 2 * s.k * s.tensor * (s.hidden + (s.qkv_bias ? 1 : 0)) * s.g();
  replay.take(kWorkspace, gathered);
  replay.give(kWorkspace, gathered);
}

}  // namespace

std::int64_t attention_scratch_elements(const StageShape& s) {
  const std::int64_t rows = std::min<std::int64_t>(128, s.seq);
  return 2 * rows * s.seq + 4 * s.seq * s.head_dim + 3 * rows * s.head_dim + rows;
}

ActionProfile action_profile(const StageShape& shape, ActionType type) {
  Replay replay;
  switch (type) {
    case ActionType::forward:
      forward(shape, replay);
      break;
    case ActionType::backward:
      backward(shape, replay);
      break;
    case ActionType::receive_forward:
      replay.take(kActivations, TensorBytes(shape).stream);
      break;
    case ActionType::optimizer:
      optimizer(shape, replay);
      break;
    case ActionType::send_forward:
    case ActionType::send_backward:
    case ActionType::receive_backward:
    case ActionType::reduce_gradients:
    case ActionType::reduce_embedding:
      break;
    default:
      throw InputError(
          fmt::format("schedule: action {} has no memory description; expected F, B, transfers, ARG, ARE or "
                      "OPT; use gpipe or 1f1b",
                      name_of(type)));
  }
  return replay.profile();
}

MemoryBreakdown held_bytes(const StageShape& s, const RunConfig& config) {
  MemoryBreakdown held;
  const std::int64_t parameters = parameters_of(s).total();
  held[Category::parameters].value = parameters * s.e();
  held[Category::gradients].value = parameters * s.g();
  const std::int64_t moments = config.optimizer == Optimizer::adam ? 2 : 0;
  const std::int64_t master = s.type == DType::fp32 ? 0 : 1;
  held[Category::optimizer].value = parameters * (moments + master) * 4;

  const std::int64_t stream = s.tokens * s.hidden * s.e();
  const std::int64_t buffers = (s.last ? 0 : 2) + (s.first ? 0 : 1);  // send_f and recv_b; send_b
  held[Category::communication].value = buffers * stream;

  const std::int64_t rotary = s.rotary ? 2 * s.seq * (s.head_dim / 2) : 0;
  const std::int64_t ends = (s.first ? 1 : 0) + (s.last ? 1 : 0);
  const std::int64_t token_ids = ends * config.microbatches() * s.tokens;
  held[kWorkspace].value = 4 * (rotary + token_ids + attention_scratch_elements(s));
  return held;
}

MemoryPrediction predict_memory(const RunConfig& config, const Schedule& schedule) {
  const std::vector<StageShape> shapes = stage_shapes(config, schedule.stages_per_route());
  std::vector<RankMemory> by_pipeline_rank(static_cast<std::size_t>(schedule.ranks));
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const StageShape& shape = shapes[static_cast<std::size_t>(stage % schedule.stages_per_route())];
    const MemoryBreakdown held = held_bytes(shape, config);
    const auto rank = static_cast<std::size_t>(schedule.rank_of_stage[static_cast<std::size_t>(stage)]);
    for (int c = 0; c < kCategories; ++c) {
      by_pipeline_rank[rank].held[static_cast<Category>(c)] += held[static_cast<Category>(c)];
    }
  }

  for (int rank = 0; rank < schedule.ranks; ++rank) {
    RankMemory& memory = by_pipeline_rank[static_cast<std::size_t>(rank)];
    memory.pipeline_rank = rank;
    memory.peak = memory.held;
    MemoryBreakdown now = memory.held;
    std::int64_t now_total = now.total().value;
    std::int64_t peak_total = now_total;
    using Profiles = std::array<ActionProfile, kActionTypes>;
    std::vector<Profiles> profiles(static_cast<std::size_t>(schedule.stages));
    std::vector<std::uint32_t> known(static_cast<std::size_t>(schedule.stages));
    for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
      const auto type = static_cast<std::size_t>(action.type);
      ActionProfile& profile = profiles[action.stage][type];
      if ((known[action.stage] >> type & 1U) == 0) {
        const auto of_route = static_cast<std::size_t>(action.stage % schedule.stages_per_route());
        profile = action_profile(shapes[of_route], action.type);
        known[action.stage] |= 1U << type;
      }
      const std::int64_t highest = now_total + profile.peak.total().value;
      if (highest > peak_total) {
        peak_total = highest;
        memory.at = to_string(action);
        for (int c = 0; c < kCategories; ++c) {
          const auto category = static_cast<Category>(c);
          memory.peak[category] = now[category] + profile.peak[category];
        }
      }
      for (int c = 0; c < kCategories; ++c) {
        now[static_cast<Category>(c)] += profile.net[static_cast<Category>(c)];
      }
      now_total += profile.net.total().value;
    }
  }

  MemoryPrediction prediction;
  const Layout layout = config.layout();
  for (int rank = 0; rank < layout.world(); ++rank) {
    RankMemory memory = by_pipeline_rank[static_cast<std::size_t>(layout.coordinates(rank).pipeline)];
    memory.rank = rank;
    if (memory.peak.total() > prediction.peak) {
      prediction.peak = memory.peak.total();
      prediction.peak_rank = rank;
    }
    prediction.ranks.push_back(std::move(memory));
  }
  return prediction;
}

}  // namespace plumbline
