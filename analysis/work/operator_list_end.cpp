// ARG, ARE and OPT: reductions over replicas and copies, gradient norm, update.
#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "analysis/work/muon.hpp"
#include "analysis/work/operator_list_calls.hpp"
#include "analysis/work/parameter_units.hpp"
#include "analysis/work/sure_overflow.hpp"

namespace plumbline {
namespace {

/// Elements of a stage that a rank holds gradients of, and updates.
struct Owned {
  std::int64_t vectors = 0;
  std::int64_t matrices = 0;
  std::int64_t others = 0;  // of these, in units that are no matrices of layers
};

Owned owned_of(const StageShape& s) {
  const StageElements elements = trained_elements_of(s);
  const bool pieces = s.sharding.zero >= 1;
  return {elements.vectors, pieces ? elements.pieces : elements.matrices,
          pieces ? elements.other_pieces : elements.others};
}

OwnedPiece piece_of(const HeldStages& rank, int data_rank) {
  return {data_rank, rank.layout.expert_place({.data = data_rank}).copy};
}

/// Key and value rows of a layer's qkv unit in the piece of one data rank.
std::int64_t owned_key_value_rows(const StageShape& s, int data_rank) {
  const std::int64_t from = s.attention.q * s.stream.hidden;
  const std::int64_t to = (s.attention.q + 2 * s.attention.k) * s.stream.hidden;
  if (s.sharding.zero == 0) return to - from;
  const std::int64_t piece = padded_layer_unit(s) / s.pieces();  // not of layers that differ
  const int mine = data_rank % s.pieces();
  return std::max<std::int64_t>(0, std::min(to, (mine + 1) * piece) - std::max(from, mine * piece));
}

bool sums_adapters(const StageShape& s) {
  return s.adapters.own && s.sharding.tensor > 1;
}

/// Sums of the adapters' replicated matrices over the tensor ranks, of the data rank's piece.
void reduce_adapters(const StageShape& s, int data_rank, CallList& list) {
  if (!sums_adapters(s)) return;
  const std::int64_t piece = trainable_layer(s) / (s.sharding.zero >= 1 ? s.pieces() : 1);
  const std::int64_t mine = s.sharding.zero >= 1 ? data_rank % s.pieces() * piece : 0;
  for (std::int64_t layer = 0; layer < s.layers; ++layer) {
    std::int64_t offset = 0;
    for (const AdaptedProduct& product : adapted_products(s)) {
      const std::int64_t from = offset + product.replicated_from();
      const std::int64_t first = std::max(from, mine);
      const std::int64_t end = std::min(from + product.replicated(), mine + piece);
      if (first < end) list.tensor_all_reduce("adapter all-reduce", end - first, s.numerics.grad_type);
      offset += product.elements();
    }
  }
}

/// Gradient buckets of experts that another framework spreads over ranks, layer by layer.
std::vector<GradientBucket> expert_buckets(const StageShape& s) {
  std::vector<GradientBucket> buckets;
  if (!s.spreads_experts() || s.exchanges_rows() || s.expert.copies == 1) return buckets;
  const std::vector<ParameterUnit> units = units_of(s);
  buckets.reserve(units.size());
  for (std::size_t i = units.size(); i-- > 0;) {
    if (units[i].experts == 0) continue;
    GradientBucket bucket;
    bucket.units.push_back(i);
    bucket.reduce = CallList::collective_call(
        s.expert.sharded ? CallKind::reduce_scatter : CallKind::all_reduce, "expert gradient reduction",
        Group::data, s.expert.copies, units[i].experts, s.numerics.grad_type);
    bucket.reduce.get<CollectiveCall>().stride = s.expert.tensor * s.expert.ranks;
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

/// Joins neighbours into buckets of at least `least` elements.
std::vector<GradientBucket> joined(std::vector<GradientBucket> units, double least) {
  std::vector<GradientBucket> buckets;
  for (GradientBucket& unit : units) {
    const Group group = unit.reduce.collective()->group;
    if (buckets.empty() || static_cast<double>(buckets.back().reduce.elements()) >= least ||
        !buckets.back().reduce.among(group)) {
      buckets.push_back(std::move(unit));
      continue;
    }
    GradientBucket& open = buckets.back();
    open.units.insert(open.units.end(), unit.units.begin(), unit.units.end());
    open.reduce.get<CollectiveCall>().elements += unit.reduce.elements();
    if (unit.between.elements() > 0) open.between.get<CollectiveCall>().elements += unit.between.elements();
    open.at_end = open.at_end || unit.at_end;
  }
  return buckets;
}

}  // namespace

std::pair<OperatorCall, OperatorCall> gradient_scatter(const StageShape& s, Group group, int pieces,
                                                       std::int64_t elements) {
  OperatorCall between;
  if (s.has_instances()) {
    between = CallList::collective_call(CallKind::all_reduce, "gradient all-reduce between instances",
                                        Group::between_instances, s.sharding.optimizer_instances,
                                        elements / pieces, s.numerics.grad_type);
    if (pieces == 1) return {between, {}};
  }
  return {CallList::collective_call(CallKind::reduce_scatter, "gradient reduce-scatter", group, pieces,
                                    elements, s.numerics.grad_type),
          between};
}

OperatorCall piece_copy(const StageShape& s, const GradientBucket& bucket) {
  int pieces = s.pieces();
  if (s.exchanges_rows())
    pieces = bucket.reduce.is(CallKind::reduce_scatter) ? bucket.reduce.collective()->ranks : 1;
  return CallList::memory_call("copy", bucket.reduce.elements() / pieces,
                               2 * static_cast<double>(s.numerics.g()), s.numerics.grad_type);
}

std::vector<GradientBucket> gradient_buckets(const StageShape& s, std::int64_t bucket_size) {
  std::vector<GradientBucket> experts = joined(expert_buckets(s), least_reduced(s));
  if ((s.sharding.data == 1 && s.expert.copies == 1) || s.sharding.zero >= 2) return experts;
  std::vector<GradientBucket> buckets;
  const std::vector<ParameterUnit> units = units_of(s);
  const bool whole = s.sharding.zero == 0;
  GradientBucket open;
  std::int64_t elements = 0;
  const auto close = [&](const ParameterUnit& unit, bool at_end) {
    if (whole) {
      open.reduce = CallList::collective_call(CallKind::all_reduce, "gradient all-reduce", unit.group,
                                              unit.pieces, elements, s.numerics.grad_type);
    } else {
      std::tie(open.reduce, open.between) = gradient_scatter(s, unit.group, unit.pieces, elements);
    }
    open.at_end = at_end;
    buckets.push_back(std::exchange(open, {}));
    elements = 0;
  };
  for (std::size_t i = units.size(); i-- > 0;) {
    if (units[i].pieces == 1 && !s.has_instances()) continue;
    if (s.adapters.own && trainable_unit(s, units[i]) == 0) continue;
    open.units.push_back(i);
    elements += trainable_unit(s, units[i]) - units[i].experts;
    const bool last = i == 0 || units[i - 1].group != units[i].group;
    if (elements > 0 && (!whole || elements >= bucket_size)) {
      close(units[i], false);
    } else if (elements > 0 && last) {
      close(units[i], true);
    }
  }
  if (elements > 0) close(units.front(), true);  // in front of it only frozen ones
  buckets = joined(std::move(buckets), least_reduced(s));
  experts.insert(experts.end(), std::make_move_iterator(buckets.begin()),
                 std::make_move_iterator(buckets.end()));
  return experts;
}

std::vector<OperatorCall> late_reduction_calls(const HeldStages& rank) {
  if (rank.held.empty()) return {};
  const StageShape& any = rank.held.front();
  CallList list(any);
  std::int64_t vectors = 0;
  for (const StageShape& s : rank.held) vectors += s.adapters.own ? 0 : vectors_of(s).total();
  list.collective(CallKind::all_reduce, "vector all-reduce", Group::data, any.sharding.data, vectors,
                  any.numerics.grad_type);
  for (const StageShape& s : rank.held) {
    const auto mirror = [&](std::int64_t elements) {
      list.collective(CallKind::all_reduce, "mirror all-reduce", Group::mirror, rank.mirror, elements,
                      s.numerics.grad_type);
    };
    for (const ParameterUnit& unit : units_of(s)) mirror(unit.owned(s.sharding.zero));
    mirror(vectors_of(s).total());
  }
  return std::move(list.calls);
}

std::vector<OperatorCall> reduce_gradients_calls(const HeldStages& rank, const RunConfig& config) {
  std::vector<OperatorCall> calls;
  for (const StageShape& s : rank.held) {
    for (const GradientBucket& bucket : gradient_buckets(s, config.parallel.dp.bucket_size)) {
      calls.push_back(bucket.reduce);
      if (bucket.between.elements() > 0) calls.push_back(bucket.between);
      if (s.sharding.zero == 1) calls.push_back(piece_copy(s, bucket));
    }
  }
  const std::vector<OperatorCall> late = late_reduction_calls(rank);
  calls.insert(calls.end(), late.begin(), late.end());
  return calls;
}

std::vector<OperatorCall> reduce_embedding_calls(const HeldStages& rank) {
  if (!rank.embedding_copy || rank.held.front().adapters.frozen()) return {};
  const StageShape& s = rank.held.front();
  CallList list(s);
  const std::int64_t unit = padded_vocabulary_unit(s);
  list.collective(CallKind::all_reduce, "tied embedding all-reduce", Group::embedding, 2,
                  s.sharding.zero >= 1 ? unit / s.pieces() : unit, s.numerics.grad_type);
  return std::move(list.calls);
}

std::vector<OperatorCall> clear_calls(const StageShape& s) {
  CallList list(s);
  const StageElements elements = trained_elements_of(s);
  const std::int64_t held = s.sharding.zero >= 2 ? elements.owned() : elements.whole();
  list.memory("fill", held, static_cast<double>(s.numerics.g()), s.numerics.grad_type);
  return std::move(list.calls);
}

std::vector<OperatorCall> norm_calls(const StageShape& s) {
  CallList list(s);
  const Owned owned = owned_of(s);
  list.memory("squared_norm", owned.vectors + owned.matrices, static_cast<double>(s.numerics.g()),
              s.numerics.grad_type);
  return std::move(list.calls);
}

std::vector<OperatorCall> update_calls(const StageShape& s, std::optional<OwnedPiece> piece) {
  CallList list(s);
  const Owned owned = owned_of(s);
  const bool muon = s.numerics.optimizer.kind == Optimizer::muon;
  const std::int64_t elements = owned.vectors + (muon ? owned.others : owned.matrices);
  const auto e = static_cast<double>(s.numerics.e());
  const auto g = static_cast<double>(s.numerics.g());
  const double master = s.numerics.type == DType::fp32 ? 0 : 8;
  switch (s.numerics.optimizer.kind) {
    case Optimizer::adam:
    case Optimizer::muon:
      list.memory("adam", elements, 2 * e + g + 16 + master);
      break;
    case Optimizer::lion:
      list.memory("lion", elements, 2 * e + g + 8 + master);
      break;
    case Optimizer::sgd:
      if (s.numerics.optimizer.momentum) list.memory("momentum", elements, g + 8, s.numerics.grad_type);
      list.memory("sgd", elements, 2 * e + (s.numerics.optimizer.momentum ? 4 : g) + master);
      break;
  }
  if (muon) {
    const std::vector<OperatorCall> matrices = muon_calls(s, piece);
    list.calls.insert(list.calls.end(), matrices.begin(), matrices.end());
  }
  return std::move(list.calls);
}

std::vector<OperatorCall> parameter_gather_calls(const StageShape& s, bool in_forward) {
  CallList list(s);
  for (const ParameterUnit& unit : units_of(s)) {
    const bool forward = s.sharding.zero >= 3 || s.gathers_in_first_forward();
    if ((forward && !unit.of_passes(s)) != in_forward) continue;
    list.collective(CallKind::all_gather, "parameter all-gather", unit.group, unit.pieces,
                    trainable_unit(s, unit), s.numerics.type);
  }
  return std::move(list.calls);
}

bool sums_parts_of_units(const StageShape& s) {
  const OptimizerShape& optimizer = s.numerics.optimizer;
  return s.attention.shared_kv || sums_adapters(s) ||
         (optimizer.kind == Optimizer::muon && optimizer.gathers_blocks);
}

std::vector<OperatorCall> optimizer_calls(const HeldStages& rank, const RunConfig& config,
                                          std::optional<int> of_rank) {
  if (rank.held.empty()) return {};
  const int data_rank = of_rank.value_or(0);
  const StageShape& any = rank.held.front();
  CallList list(any);
  const auto append = [&](const std::vector<OperatorCall>& more) {
    list.calls.insert(list.calls.end(), more.begin(), more.end());
  };
  for (const StageShape& s : rank.held) {
    if (!s.place.last || !s.ends.normed_output) continue;
    const std::int64_t unit = padded_output_unit(s);
    const std::int64_t elements = s.sharding.zero >= 1 ? unit / s.pieces() : unit;
    const auto bytes = static_cast<double>(s.numerics.e());
    const auto gradient = static_cast<double>(s.numerics.g());
    list.memory("row_products", elements, bytes + gradient);
    if (s.sharding.zero >= 1) {
      list.collective(CallKind::all_reduce, "row sums all-reduce", s.piece_group(), s.pieces(),
                      2 * s.ends.outputs, DType::fp32);
    }
    list.memory("remove_row_parts", elements, bytes + 2 * gradient);
  }
  for (const StageShape& s : rank.held) {
    if (!s.attention.shared_kv) continue;
    const auto all_reduce = [&](std::int64_t elements) {
      list.collective(CallKind::all_reduce, "shared key/value all-reduce", Group::shared_kv,
                      rank.layout.kv_sharing, elements, s.numerics.grad_type);
      if (!list.calls.empty() && elements > 0) list.calls.back().count = s.layers;
    };
    all_reduce(owned_key_value_rows(s, data_rank));
    if (s.attention.qkv_bias) all_reduce(2 * s.attention.k);
  }
  for (const StageShape& s : rank.held) {
    if (!s.attention.qk_norm || s.adapters.own || s.sharding.tensor == 1 || s.sharding.sequence_parallel ||
        s.layers + s.own_modules() == 0)
      continue;
    list.collective(CallKind::all_reduce, "head norm all-reduce", Group::tensor, s.sharding.tensor,
                    2 * s.attention.head_dim, s.numerics.grad_type);
    list.calls.back().count = s.layers + s.own_modules();
  }
  for (const StageShape& s : rank.held) {
    if (!s.sharding.sequence_parallel || s.adapters.own) continue;
    list.collective(CallKind::all_reduce, "replicated vector all-reduce", Group::tensor, s.sharding.tensor,
                    vectors_of(s).replicated, s.numerics.grad_type);
  }
  for (const StageShape& s : rank.held) reduce_adapters(s, data_rank, list);
  append(fp8_scale_calls(rank));
  const bool world = any.sharding.zero >= 1 || any.exchanges_rows();
  const int model = rank.layout.tensor * rank.layout.pipeline;
  // Without clipping too: nothing is updated by a gradient that is not finite.
  for (std::size_t i = 0; i < rank.of_first_route; ++i) append(norm_calls(rank.held[i]));
  list.collective(CallKind::all_reduce, "gradient norm all-reduce", world ? Group::world : Group::model,
                  world ? rank.layout.world() : model, 1, DType::fp32);
  if (overflows_in_every_step(config)) {
    for (const StageShape& s : rank.held) append(clear_calls(s));
    return std::move(list.calls);
  }
  const auto piece = of_rank ? std::optional<OwnedPiece>(piece_of(rank, *of_rank)) : std::nullopt;
  for (const StageShape& s : rank.held) append(update_calls(s, piece));
  for (const StageShape& s : rank.held) {
    if (s.sharding.zero != 1 && s.sharding.zero != 2) continue;
    append(parameter_gather_calls(s, false));
  }
  if (config.mixture.bias_update_rate > 0) {
    std::int64_t loads = 0;
    const auto biases = [](const StageShape& like) { return like.moe.expert_bias ? like.moe.experts : 0; };
    for (const StageShape& s : rank.held) loads += s.over_layers(biases) + s.over_modules(biases);
    list.collective(CallKind::all_reduce, "expert load all-reduce", Group::data, any.sharding.data, loads,
                    DType::fp32);
    if (any.folds_experts()) {
      list.collective(CallKind::all_reduce, "expert load all-reduce", Group::tensor, any.sharding.tensor,
                      loads, DType::fp32);
    }
    list.collective(CallKind::all_reduce, "expert load all-reduce", Group::mirror, rank.mirror, loads,
                    DType::fp32);
  }
  for (const StageShape& s : rank.held) append(clear_calls(s));
  for (const StageShape& s : rank.held) append(fp8_weight_calls(s));
  return std::move(list.calls);
}

}  // namespace plumbline
