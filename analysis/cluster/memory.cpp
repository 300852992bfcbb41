#include "analysis/cluster/memory.hpp"

#include <algorithm>

#include "analysis/cluster/layer_cost.hpp"

namespace plumbline::cluster {
namespace {

/// What the weight gradients of a layer need after its input gradients are done: the inputs of the four
/// products and the gradients of their outputs, bytes per token ÷ hidden (dropout masks and scores are gone).
constexpr double kHeldForWeights = 32;

double tokens_of(const Job& job) {
  return job.sequence * job.micro_batch / job.context;
}

}  // namespace

double layer_activation_bytes(const Software& sw, const Job& job) {
  const double t = job.tensor;
  const double tokens = tokens_of(job);
  const double h = job.model.hidden;
  const double sp_size = job.sequence_parallel ? t : 1;
  if (job.recomputation == Recomputation::full) return 2 * tokens * h / sp_size / job.recompute_layers;
  const double q = job.model.heads * job.model.head;
  const double kv = job.model.kv_heads * job.model.head;
  const double masks = drops_stream(sw, job) ? 2 * h : 0;  // a byte per element, after attention and MLP
  double bytes = 0;
  if (job.model.gated) {
    // Norms keep their inputs (4h); query, key, value, attention output, its statistics; gate, up, product.
    bytes =
        tokens * ((8 * h + masks) / sp_size + (4 * q + 4 * kv + 6 * job.model.ffn + 4 * job.model.heads) / t);
    if (job.recomputation == Recomputation::selective) {
      // The layer's input; of its seven products every second result (query, value, gate, down); attention's
      // result and its statistics (torchtitan, parallelize_llama.py: operators that selective recomputation
      // saves).
      bytes = tokens *
              ((4 * h + masks) / sp_size + (4 * q + 2 * kv + 2 * job.model.ffn + 4 * job.model.heads) / t);
    }
    return bytes;
  }
  // 10 of the 34: inputs of norms and masks of residual dropout, not split by tensor parallelism.
  bytes = tokens * ((8 * h + masks) / sp_size + (8 * h + 4 * job.model.ffn) / t);
  if (!sw.flash_attention && job.recomputation == Recomputation::none) {
    // The softmax's result; with dropout also its mask and its own result.
    bytes += (drops_attention(sw, job) ? 5 : 2) * tokens * job.sequence * job.model.heads / t;
  }
  if (sw.flash_attention) bytes += 4 * tokens * job.model.heads / t;
  return bytes;
}

double state_bytes(const Software& sw, const Job& job, double parameters) {
  const double replicas = job.data * job.context;
  const double gradients = job.half_gradients ? 2 : sw.gradient_bytes;
  const double optimizer = sw.optimizer_state_bytes;
  const double weights = sw.state_bytes - sw.gradient_bytes - optimizer;
  const int stage = sw.sharded ? 3 : job.zero;
  return parameters * (weights / (stage >= 3 ? replicas : 1) + gradients / (stage >= 2 ? replicas : 1) +
                       optimizer / (stage >= 1 ? replicas : 1));
}

std::vector<double> peak_layers(const Schedule& schedule, const Placement& placement,
                                double held_after_input) {
  std::vector<double> peaks;
  for (const auto& actions : schedule.actions) {
    double held = 0;
    double peak = 0;
    for (const Action& action : actions) {
      const double layers = placement.layers[action.stage];
      if (action.type == ActionType::forward) held += layers;
      peak = std::max(peak, held);
      if (action.type == ActionType::backward) held -= layers;
      if (action.type == ActionType::backward_input) held -= layers * (1 - held_after_input);
      if (action.type == ActionType::backward_weight) held -= layers * held_after_input;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

std::vector<RankBytes> rank_memory(const Software& sw, const Job& job, const Placement& placement,
                                   const Schedule& schedule) {
  const double layer = layer_activation_bytes(sw, job);
  const double tokens = tokens_of(job);
  const double t = job.tensor;
  const double sp_size = job.sequence_parallel ? t : 1;
  const double unit = 2 * tokens * job.model.hidden;
  const double held = std::min(1.0, kHeldForWeights * tokens * job.model.hidden / t / layer);
  const std::vector<double> peaks = peak_layers(schedule, placement, held);
  const bool split = job.vocabulary != VocabPasses::none;
  const double vocab = job.model.vocab / t / (split ? job.pipeline : 1);
  const auto stages = static_cast<int>(placement.layers.size());
  std::vector<double> parameters(static_cast<std::size_t>(job.pipeline), 0.0);
  std::vector<RankBytes> ranks(parameters.size());
  for (int stage = 0; stage < stages; ++stage) {
    Placement one;
    one.layers.assign(placement.layers.size(), 0.0);
    one.layers[static_cast<std::size_t>(stage)] = placement.layers[static_cast<std::size_t>(stage)];
    const auto rank = static_cast<std::size_t>(schedule.rank_of_stage[static_cast<std::size_t>(stage)]);
    parameters[rank] += rank_parameters(job, one, stage, stages);
  }
  const double kept_scores = !sw.flash_attention && !job.model.gated
                                 ? 2 * job.micro_batch * job.model.heads / t * job.sequence * job.sequence
                                 : 0;
  // Recomputing a layer needs its whole activations once more.
  Job kept = job;
  kept.recomputation = Recomputation::none;
  const double again = job.recomputation == Recomputation::none
                           ? 0
                           : layer_activation_bytes(sw, kept) *
                                     (job.recomputation == Recomputation::full ? job.recompute_layers : 1) -
                                 layer;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    RankBytes& memory = ranks[rank];
    memory.states = state_bytes(sw, job, parameters[rank]);
    memory.activations = peaks[rank] * layer;
    // Gradients of one layer's widest activations, and of the scores where they exist.
    memory.transient =
        2 * 2 * tokens * job.model.ffn / t + 2 * unit / sp_size + 4 * kept_scores + std::max(again, 0.0);
    if (sw.sharded) memory.transient += 2 * (2 + 4) * job.model.layer_parameters() / t;
    if (split) memory.logits = 8 * tokens * vocab + 5 * unit;
  }
  const auto first = static_cast<std::size_t>(schedule.rank_of_stage.front());
  const auto last = static_cast<std::size_t>(schedule.rank_of_stage.back());
  const double first_layers = std::max(placement.layers.front(), 1e-9);
  // The embedding's output is the first layer's input; its dropout keeps a mask.
  if (!sw.flash_attention || drops_stream(sw, job)) {
    ranks[first].activations +=
        peaks[first] / first_layers * 1.5 * unit / sp_size * (first_layers > 0.5 ? 1 : 0);
  }
  if (!split) {
    // 16-bit output, its fp32 copy, the exponentials and the gradient, which cross_entropy of PyTorch (Llama)
    // also keeps in fp32.
    ranks[last].logits = (job.model.gated ? 16 : 12) * tokens * vocab + 2 * unit;
    // While the loss runs, only the last stage's own activations are there and no layer's gradients.
    ranks[last].transient *= ranks[last].logits > ranks[last].transient ? 0 : 1;
  }
  return ranks;
}

double peak_memory(const std::vector<RankBytes>& ranks) {
  double peak = 0;
  for (const RankBytes& rank : ranks) peak = std::max(peak, rank.total());
  return peak;
}

}  // namespace plumbline::cluster
