#include "bench/training/feed_forward/router.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace plumbline::training {
namespace {

/// FP8 products need a multiple of this many rows per expert: matrix units sum over so many.
constexpr std::int64_t kFp8Rows = 16;

/// The load that balances a micro-batch is that of all ranks of its sequences.
bool balances_with_context_ranks(const RunConfig& config) {
  return config.parallel.context > 1 && config.mixture.aux_loss_coeff != 0 &&
         config.mixture.load_balancing == LoadBalancing::aux_loss;
}

/// With the coefficients of the losses that keep the load even, as parts of the mean loss of the step.
Router router_of(const TrainingContext& context) {
  const RunConfig& config = context.config;
  const auto tokens = static_cast<double>(context.shape.tokens);
  const double parts = static_cast<double>(config.microbatches()) * config.parallel.data();
  Router router;
  router.top_k = config.model.mixture.top_k;
  router.normalized = config.model.mixture.normalized;
  router.sigmoid = config.model.mixture.scores == RouterScores::sigmoid;
  router.groups = config.model.mixture.groups;
  router.chosen_groups = config.model.mixture.chosen_groups;
  router.scale = config.model.mixture.routed_scale;
  router.capacity = config.expert_capacity();
  router.by_position = config.mixture.drop_policy == TokenDropPolicy::position;
  router.padded = config.mixture.pad_to_capacity;
  if (config.numerics.fp8.on()) router.multiple = kFp8Rows;
  const bool by_sequence = config.mixture.load_balancing == LoadBalancing::seq_aux_loss;
  if (by_sequence) router.balanced_tokens = config.batch.seq_length;
  double together = by_sequence ? static_cast<double>(router.balanced_tokens) : tokens;
  if (config.mixture.load_balancing == LoadBalancing::global_aux_loss) together *= config.parallel.copies();
  if (balances_with_context_ranks(config)) together *= config.parallel.context;
  const double all = tokens * config.parallel.context * parts;
  router.balance = context.loss_scale() * config.mixture.aux_loss_coeff *
                   static_cast<double>(config.model.mixture.experts) /
                   (static_cast<double>(router.top_k) * together * all);
  router.z = context.loss_scale() * config.mixture.z_loss_coeff / all;
  return router;
}

/// The load in the balance loss: that of a micro-batch over the group, or averaged over those of this step so
/// far. `chose`: this rank's tokens of every expert in the latest.
Tensor summed_load(const TrainingContext& context, std::vector<float> chose, Group group,
                   RunningLoad* running) {
  const Matrix all(chose.data(), 1, context.shape.experts, DType::fp32);
  context.over_context_ranks(
      [&](Communicator& communicator) { communicator.all_reduce(group, all, ReduceOp::sum); });
  if (running != nullptr) {
    running->tokens.resize(chose.size());
    ++running->microbatches;
    for (std::size_t i = 0; i < chose.size(); ++i) {
      running->tokens[i] += static_cast<double>(chose[i]);
      chose[i] = static_cast<float>(running->tokens[i] / static_cast<double>(running->microbatches));
    }
  }
  Tensor load = context.make_fp32(context.kept, "layer load of experts", 1, context.shape.experts);
  context.operators.upload(chose.data(), load);
  return load;
}

/// Load of more than this rank's tokens; none where these alone count.
Tensor load_of_others(const TrainingContext& context, const std::vector<std::int64_t>& chose,
                      std::int64_t layer) {
  std::vector<float> loads(chose.begin(), chose.end());
  if (context.running_loads != nullptr)
    return summed_load(context, std::move(loads), Group::data, &(*context.running_loads)[layer]);
  if (!balances_with_context_ranks(context.config)) return {};
  return summed_load(context, std::move(loads), Group::context, nullptr);
}

}  // namespace

void make_routing(const TrainingContext& context, const Matrix& x, const Matrix& weight, const Matrix& bias,
                  std::int64_t layer, Routing& routing) {
  const LayerWidths& shape = context.shape;
  Operators& ops = context.operators;
  const auto numbers = [&](const char* holder, std::int64_t count, DType type) {
    return context.arena.allocate(context.kept, holder, 1, count, type);
  };
  routing.logits = context.make_fp32(context.kept, "layer router logits", shape.tokens, shape.experts);
  routing.chosen = numbers("layer experts of tokens", shape.choices, DType::int32);
  routing.places = numbers("layer places of tokens", shape.sent, DType::int32);
  routing.chose.assign(static_cast<std::size_t>(shape.experts), 0);
  routing.counts = routing.chose;
  ops.gemm({.a = x, .b = weight, .c = routing.logits, .b_transposed = true});
  Router router = router_of(context);
  router.bias = bias;
  ops.route(router, routing.logits, routing.chosen, routing.chose.data());
  if (!routing.load) routing.load = load_of_others(context, routing.chose, layer);
  Matrix logits = routing.logits;
  Matrix chosen = routing.chosen;
  if (shape.sent < shape.choices) {  // of the tokens that this rank sends
    const std::int64_t first = context.tensor_rank();
    logits = logits.row_range(first * shape.rows, shape.rows);
    chosen = chosen.columns(first * shape.sent, shape.sent);
    ops.route(router, logits, chosen, routing.chose.data());
  }
  std::transform(routing.chose.begin(), routing.chose.end(), routing.counts.begin(),
                 [&](std::int64_t tokens) { return router.rows_of(tokens); });
  routing.tokens = numbers("layer tokens of experts", routing.rows(), DType::int32);
  routing.weights = numbers("layer weights of experts", routing.rows(), DType::fp32);
  ops.arrange(router, logits, chosen, routing.places, routing.tokens, routing.weights);
}

void logits_backward(const TrainingContext& context, const Routing& routing, const Matrix& gradients,
                     const Matrix& dlogits) {
  const bool folded = context.shape.folded;
  const Matrix dweights(gradients.data, 1, folded ? context.shape.choices : routing.rows(), DType::fp32);
  if (!folded) context.reduce_over_tensor_ranks(dweights, ReduceOp::sum);
  const Matrix places = folded ? Matrix() : routing.places.matrix();
  Router router = router_of(context);
  if (routing.load) router.load = routing.load;
  context.operators.route_backward(router, routing.logits, routing.chosen, places, dweights, dlogits);
}

void add_router_input_gradient(const TrainingContext& context, const Matrix& dlogits, const Matrix& weight,
                               const Matrix& dx) {
  const std::int64_t first = context.sequence_parallel ? context.tensor_rank() * dx.rows : 0;
  context.operators.gemm({.a = dlogits.row_range(first, dx.rows), .b = weight, .c = dx, .accumulate = true});
}

void router_weight_gradient(const TrainingContext& context, const Matrix& dlogits, const Matrix& x,
                            const Matrix& dweight) {
  context.operators.gemm({.a = dlogits, .b = x, .c = dweight, .a_transposed = true, .accumulate = true});
}

}  // namespace plumbline::training
