// The feed-forward part of a layer with experts that are spread over ranks, and latent attention around its
// core, as Megatron-Core runs them (megatron/core/transformer/moe, multi_latent_attention.py).
#pragma once

#include <functional>

#include "analysis/work/frameworks/framework_calls.hpp"

namespace plumbline {

/// Of the known families only gpt-oss's experts have biases, and only it has sinks. It clamps the gate, and
/// turns queries and keys by YaRN with an mscale other than 1.
inline bool is_gpt_oss(const StageShape& shape) {
  return shape.mixture() && (shape.predicted.feed_forward_bias || shape.predicted.vectors > 0);
}

/// Operators of an expert's biases, forward; twice as many backward.
constexpr double kBiasOperators = 4;

/// Seconds of Python around the kernels of a grouped layer: forward up to its first product and behind it,
/// and backward with its weights' gradients.
struct GroupedHost {
  double first;
  double behind;
  double backward;
};

/// Router, dispatch, experts, combine, and the shared expert. Tokens are spread over experts evenly.
class MixtureCalls {
 public:
  MixtureCalls(const StageShape& shape, FrameworkCalls& calls) : s_(shape), calls_(calls) {}

  void forward();
  /// From the gradient of the layer's output to that of the norm's.
  void backward_input();
  void backward_weight();
  /// Processor time of one direction's launches besides those of the layer's dense parts.
  void launches(bool backward);
  /// Experts' activation, again before the backward, with the cast of its result.
  void activation();
  void shared(GemmPass pass);

 private:
  /// The shared expert's part up to its activation, and the rest of it.
  void shared_up(GemmPass pass);
  void shared_down(GemmPass pass);
  /// Its parts run alongside the exchanges (moe_shared_expert_overlap; Megatron-Core, moe/shared_experts.py):
  /// the one with the dispatch, the other with the combine.
  bool hides_shared() const;
  void route(GemmPass pass);
  using Meanwhile = std::function<void()>;
  void dispatch(const char* label, bool first, const Meanwhile& meanwhile);
  void pad(const char* label);
  /// The host reads the tokens' counts back from the device, and launches everything behind after that.
  bool reads() const;
  bool clamps() const;
  std::int64_t casts() const;
  void cast_rows(std::int64_t elements);
  /// The token's weight is a factor of the activation, whose backward sums its gradient.
  bool weighs_in_activation() const;
  void combine(const char* label, bool backward, const Meanwhile& meanwhile);
  GroupedHost grouped_host() const;
  void launched_grouped(bool reads_counts);
  bool hooked() const;
  void exchange(const char* label, bool weighted, bool combines, const Meanwhile& meanwhile);
  void exchange_weights();
  void tell_routing();
  void to_latent(GemmPass pass);
  void from_latent(GemmPass pass);
  /// Bytes per element of an activation's result, forward and backward.
  double activation_bytes() const;
  double activation_backward_bytes() const;

  const StageShape& s_;
  const std::int64_t width_ = s_.expert_width();  // of a token at its experts
  FrameworkCalls& calls_;
};

/// Calls that replace the QKV product in latent attention.
class LatentCalls {
 public:
  LatentCalls(const StageShape& shape, FrameworkCalls& calls) : s_(shape), calls_(calls) {}

  void forward(double share);
  /// Queries, keys and values again from their compressed vectors.
  void up_projections();
  void backward_input();
  void backward_weight();
  /// Sequence parallelism gathers short vectors, forward, and scatters their gradients, backward.
  void gather();
  void scatter();

 private:
  void turn(bool backward);
  std::int64_t up_width() const { return s_.attention.own_keys() + s_.attention.values(); }
  std::int64_t gathered() const {
    const std::int64_t queries = s_.attention.query_rank > 0 ? s_.attention.query_rank : s_.stream.hidden;
    return s_.stream.tokens * (queries + s_.attention.kv_rank + s_.attention.rotated);
  }

  const StageShape& s_;
  FrameworkCalls& calls_;
};

/// Parts that selective recomputation repeats besides core attention.
void recompute_modules(const StageShape& shape, FrameworkCalls& calls);

}  // namespace plumbline
