#include "analysis/work/framework_list.hpp"

#include <algorithm>
#include <utility>

#include "analysis/step/parameters.hpp"
#include "analysis/step/vision_tower.hpp"
#include "analysis/work/action_parts.hpp"
#include "analysis/work/frameworks/framework_calls.hpp"
#include "analysis/work/frozen_weights.hpp"
#include "analysis/work/parameter_units.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// Elements of a layer; those of experts that are spread over ranks count as many as take all data ranks as
/// long as their fewer copies.
std::int64_t travelling_elements(const StageShape& s) {
  if (!s.mixture() || s.sharding.state_shards == 1) return layer_matrices(s);
  const auto others = [](int ranks) { return 1 - 1.0 / ranks; };
  const double less = 1 - others(s.expert.state_shards) / others(s.sharding.state_shards);
  return layer_matrices(s) - static_cast<std::int64_t>(less * static_cast<double>(spread_expert_matrices(s)));
}

/// The parts of a framework's step. Parameters of ZeRO 3 are gathered unit by unit, gradients of ZeRO 2 and 3
/// scattered.
class FrameworkBuilder : public PartList {
 public:
  explicit FrameworkBuilder(const StageShape& shape) : PartList(shape), s_(shape) {}

  struct Kind {
    bool values = false;
    bool gradient = false;
    bool apart = false;
    std::int64_t trained = -1;  // elements of the unit that train; -1: all, or as the stage's adapters say
  };
  /// `unit`: elements that are gathered and reduced among all data ranks.
  template <class Write>
  std::size_t part(Kind kind, std::int64_t unit, Write&& write) {
    return part(s_, kind, unit, write);
  }
  /// The same for layers that are like `shape`.
  template <class Write>
  std::size_t part(const StageShape& shape, Kind kind, std::int64_t unit, Write&& write) {
    UnitWork part;
    part.apart = kind.apart;
    part.final_gradient = kind.gradient;
    write(part);
    if (kind.values && s_.sharding.zero >= 3) {
      const bool packed = !kind.apart && shape.adapters.quantized();
      const auto bytes = static_cast<std::int64_t>(frozen_packed_bytes(shape, static_cast<double>(unit)));
      part.gather = CallList::collective_call(
          CallKind::all_gather, "parameter all-gather", Group::data, s_.sharding.state_shards,
          packed ? bytes : unit,
          packed || (!kind.apart && gathers_fp8(shape)) ? DType::fp8_e4m3 : s_.numerics.type);
    }
    if (kind.gradient && s_.sharding.zero >= 2) {
      const std::int64_t trains = kind.trained >= 0       ? kind.trained
                                  : !s_.adapters.frozen() ? unit
                                  : kind.apart            ? 0
                                                          : trainable_layer(s_);
      part.scatter =
          CallList::collective_call(CallKind::reduce_scatter, "gradient reduce-scatter", Group::data,
                                    s_.sharding.state_shards, trains, s_.numerics.grad_type);
      if (s_.sharding.optimizer_instances > 1)
        part.between = between_instances(s_, trains, s_.numerics.grad_type);
    }
    return add(std::move(part));
  }
  template <class Write>
  void once(Kind kind, std::int64_t unit, Write&& write) {
    run(part(kind, unit, write));
  }
  /// The layers of an action in the order of their kinds and windows; `write(layer's stage, window, part)`.
  template <class Write>
  void layers(Kind kind, bool descending, Write&& write) {
    const auto make = [&](const StageShape& like, std::int64_t window) {
      return part(like, kind, travelling_elements(like), [&](UnitWork& unit) { write(like, window, unit); });
    };
    const LayerParts parts(s_, make, true, descending);
    descending ? parts.run_descending(*this, 0, s_.layers) : parts.run(*this, 0, s_.layers);
  }
  /// Host time of a stage per micro-batch outside the operators, half of it in each direction.
  void micro_batch() {
    if (!s_.graphs.step) work.host += Seconds{s_.software->host.micro_batch_s / 2};
  }

 private:
  const StageShape& s_;
};

void embedding_forward(const StageShape& s, UnitWork& work) {
  FrameworkCalls calls(s, work);
  const std::int64_t stream = s.stream.tokens * s.stream.hidden;
  calls.stream("embedding", stream, 4);
  if (s.sharding.tensor > 1) {
    calls.stream("mask", stream, 4);
    calls.collective(s.sharding.sequence_parallel ? CallKind::reduce_scatter : CallKind::all_reduce,
                     "embedding collective", stream, s.numerics.type);
  }
  if (s.ends.positions > 0) calls.stream("positions", stream, 6);
  if (s.ends.scaled_embedding) calls.stream("scale", stream, 4);
  if (s.ends.embedding_norm)
    calls.stream("norm", s.stream.rows * s.stream.hidden, 2 * s.software->kernels.norm_passes);
  if (s.block.dropout) calls.stream("dropout", s.stream.rows * s.stream.hidden, 5);
  calls.launches_eagerly(10);
}

/// The lookup's gradient is a dense tensor of the whole table: cleared, and added to the gradient.
void embedding_backward(const StageShape& s, UnitWork& work) {
  FrameworkCalls calls(s, work);
  if (s.ends.scaled_embedding) calls.stream("scale", s.stream.tokens * s.stream.hidden, 4);
  if (s.ends.embedding_norm) calls.stream("norm backward", s.stream.rows * s.stream.hidden, 10);
  calls.stream("embedding backward", s.stream.tokens * s.stream.hidden, 6);
  calls.stream("embedding gradient", s.ends.vocab * s.stream.hidden,
               4 + 2 * static_cast<double>(s.numerics.g()));
  calls.launches_eagerly(8);
}

std::int64_t output_elements(const StageShape& s) {
  return s.ends.outputs * s.stream.hidden;
}

void output_forward(const StageShape& s, UnitWork& work) {
  FrameworkCalls calls(s, work);
  calls.stream("norm", s.stream.rows * s.stream.hidden, 4);
  calls.gemm("output layer", GemmPass::forward, s.ends.outputs, s.stream.hidden);
  calls.stream("loss", s.stream.tokens * s.ends.outputs, 4 * s.software->kernels.loss_passes);
  if (s.sharding.sequence_parallel)
    calls.collective(CallKind::all_gather, "output all-gather", s.stream.tokens * s.stream.hidden,
                     s.numerics.type);
  for (int statistic = 0; statistic < 3; ++statistic)
    calls.collective(CallKind::all_reduce, "loss all-reduce", s.stream.tokens, DType::fp32);
  calls.launches_eagerly(20);
}

void output_backward_input(const StageShape& s, UnitWork& work) {
  FrameworkCalls calls(s, work);
  calls.stream("loss backward", s.stream.tokens * s.ends.outputs,
               4 * s.software->kernels.loss_backward_passes);
  calls.gemm("output layer", GemmPass::input_gradient, s.ends.outputs, s.stream.hidden);
  calls.stream("norm backward", s.stream.rows * s.stream.hidden, 10);
  calls.collective(s.sharding.sequence_parallel ? CallKind::reduce_scatter : CallKind::all_reduce,
                   "output collective", s.stream.tokens * s.stream.hidden, s.numerics.type);
  calls.launches_eagerly(12);
}

/// `deferred`: the input of the next micro-batch is gathered meanwhile (NVIDIA/Megatron-LM@d98e8a64
/// megatron/core/utils.py, drain_embedding_wgrad_compute).
void output_backward_weight(const StageShape& s, UnitWork& work, bool deferred = false) {
  FrameworkCalls calls(s, work);
  const auto product = [&] {
    calls.gemm("output layer", GemmPass::weight_gradient, s.ends.outputs, s.stream.hidden);
  };
  if (deferred) {
    calls.while_gathered("output all-gather", product);
  } else {
    product();
  }
  if (s.software->memory.weight_gradient_bytes > 0)
    calls.stream("add gradients", s.ends.outputs * s.stream.hidden, s.software->memory.weight_gradient_bytes);
  calls.launches_eagerly(3);
}

/// MTP modules: the next tokens' embeddings and the stream, both normed, become one stream again, which goes
/// through a layer and the output layer (multi_token_prediction.py). Their gradients are not reduced here.
void prediction_modules_forward(const StageShape& s, FrameworkBuilder& builder) {
  const StageShape layer = s.like(s.module_kind());
  for (std::int64_t module = 0; module < s.ends.prediction_modules; ++module) {
    builder.once({}, 0, [&](UnitWork& work) {
      FrameworkCalls calls(s, work);
      calls.stream("embedding", s.stream.tokens * s.stream.hidden, 4);
      calls.stream("norm", 2 * s.stream.rows * s.stream.hidden, 2 * s.software->kernels.norm_passes);
      calls.stream("concatenate", 2 * s.stream.rows * s.stream.hidden, 4);
      calls.linear("prediction module", GemmPass::forward, s.stream.hidden / s.sharding.tensor,
                   2 * s.stream.hidden);
      calls.launches_eagerly(12);
    });
    builder.once({}, 0, [&](UnitWork& work) { framework_layer(layer, LayerPass::forward, 0, false, work); });
    builder.once({.apart = true}, 0, [&](UnitWork& work) { output_forward(s, work); });
  }
}

/// Waits right in front of the calls from `first` on go behind them (delay_wgrad_compute; Megatron-Core,
/// models/common/model_chunk_schedule_plan.py: mlp.backward_dw() stands between the exchanges of a forward
/// and a backward, in front of the forward's experts).
void wait_behind(std::size_t first, std::vector<OperatorCall>& calls) {
  const auto end = calls.begin() + static_cast<std::ptrdiff_t>(first);
  auto begin = end;
  while (begin != calls.begin() && std::prev(begin)->as<WaitCall>() != nullptr) --begin;
  std::rotate(begin, end, calls.end());
}

void prediction_modules_backward(const StageShape& s, bool input, bool weight, FrameworkBuilder& builder) {
  const StageShape layer = s.like(s.module_kind());
  for (std::int64_t module = 0; module < s.ends.prediction_modules; ++module) {
    builder.once({.apart = true}, 0, [&](UnitWork& work) {
      if (input) output_backward_input(s, work);
      if (weight) output_backward_weight(s, work);
    });
    builder.once({}, 0, [&](UnitWork& work) {
      if (input) framework_recomputation(layer, 0, work);
      if (input) framework_layer(layer, LayerPass::backward_input, 0, weight, work);
      if (weight) framework_layer(layer, LayerPass::backward_weight, 0, input, work);
    });
    builder.once({}, 0, [&](UnitWork& work) {
      FrameworkCalls calls(s, work);
      const std::int64_t width = s.stream.hidden / s.sharding.tensor;
      if (weight) calls.linear("prediction module", GemmPass::weight_gradient, width, 2 * s.stream.hidden);
      if (!input) return;
      calls.linear("prediction module", GemmPass::input_gradient, width, 2 * s.stream.hidden);
      calls.stream("norm backward", 2 * s.stream.rows * s.stream.hidden, 10);
      calls.stream("embedding backward", s.stream.tokens * s.stream.hidden, 6);
      calls.launches_eagerly(16);
    });
  }
}

/// Layers of the stage's vision tower; `write(layer, part)`.
template <class Write>
void run_tower_layers(const StageShape& s, FrameworkBuilder& builder, const Write& write) {
  for (const TowerLayers& alike : tower_layers(s)) {
    const std::size_t part = builder.part({.values = true, .apart = true}, layer_matrices(alike.layer),
                                          [&](UnitWork& work) { write(alike.layer, work); });
    builder.run(part, alike.count);
  }
}

void tower_forward(const StageShape& s, FrameworkBuilder& builder) {
  if (!s.vision.on()) return;
  const TowerElements elements = tower_elements(s);
  builder.once({.values = true, .apart = true}, elements.embedding.matrices,
               [&](UnitWork& work) { tower_tables(s, false, work); });
  run_tower_layers(s, builder, [](const StageShape& layer, UnitWork& work) {
    framework_layer(layer, LayerPass::forward, 0, false, work);
  });
  builder.once({.values = true, .apart = true}, elements.mergers.matrices,
               [&](UnitWork& work) { tower_mergers(s, false, work); });
}

/// The gradients of the whole tower are one unit, final with its last part.
void tower_backward(const StageShape& s, FrameworkBuilder& builder) {
  if (!s.vision.on()) return;
  const TowerElements elements = tower_elements(s);
  builder.once({.values = true, .apart = true}, elements.mergers.matrices,
               [&](UnitWork& work) { tower_mergers(s, true, work); });
  if (s.vision.trains_layers) {
    run_tower_layers(s, builder, [](const StageShape& layer, UnitWork& work) {
      framework_recomputation(layer, 0, work);
      framework_layer(layer, LayerPass::backward_input, 0, true, work);
      framework_layer(layer, LayerPass::backward_weight, 0, true, work);
    });
  }
  builder.once({false, true, true, elements.trained(s.vision).matrices}, elements.all().matrices,
               [&](UnitWork& work) {
                 if (s.vision.trains_layers) tower_tables(s, true, work);
               });
}

ActionWork forward_work(const StageShape& s) {
  FrameworkBuilder builder(s);
  tower_forward(s, builder);
  const std::int64_t table = s.ends.vocab * s.stream.hidden;
  if (s.embeds())
    builder.once({.values = true, .apart = true}, table, [&](UnitWork& w) { embedding_forward(s, w); });
  builder.layers({.values = true}, false, [](const StageShape& layer, std::int64_t window, UnitWork& work) {
    framework_layer(layer, LayerPass::forward, window, false, work);
  });
  if (s.scores())
    builder.once({.values = true, .apart = true}, output_elements(s),
                 [&](UnitWork& w) { output_forward(s, w); });
  if (s.scores()) prediction_modules_forward(s, builder);
  builder.micro_batch();
  return std::move(builder.work);
}

/// The output layer's weight gradient alone, of a stage whose I has made the others (megatron/core/pipeline_
/// parallel/schedules.py, finish_embedding_wgrad_compute).
ActionWork deferred_work(const StageShape& s) {
  FrameworkBuilder builder(s);
  builder.once({false, true, true}, output_elements(s),
               [&](UnitWork& work) { output_backward_weight(s, work, true); });
  return std::move(builder.work);
}

ActionWork backward_work(const StageShape& s, bool input, bool weight) {
  const bool deferring = s.ends.defers_output_gradient && !(input && weight);
  if (deferring && !input) return deferred_work(s);
  FrameworkBuilder builder(s);
  const std::int64_t table = s.ends.vocab * s.stream.hidden;
  if (s.scores()) prediction_modules_backward(s, input, weight, builder);
  if (s.scores()) {
    builder.once({input, weight, true}, output_elements(s), [&](UnitWork& work) {
      if (input) output_backward_input(s, work);
      if (weight && !s.adapters.frozen()) output_backward_weight(s, work);
    });
  }
  weight = weight || deferring;
  const auto layer = [&](const StageShape& stage, std::int64_t window, UnitWork& work) {
    if (input) framework_recomputation(stage, window, work);
    if (input) framework_layer(stage, LayerPass::backward_input, window, weight, work);
    const std::size_t inputs = work.calls.size();
    if (weight) framework_layer(stage, LayerPass::backward_weight, window, input, work);
    if (stage.overlap.delayed_weights) wait_behind(inputs, work.calls);
  };
  builder.layers({input, weight, false}, true, layer);
  // Only linear layers have a weight gradient of their own: the lookup's goes with the input gradients.
  if (s.embeds() && input) {
    builder.once({false, true, true}, table, [&](UnitWork& work) {
      if (!s.adapters.frozen()) embedding_backward(s, work);
    });
  }
  // Positions are a unit of their own, final with the lookup, or on the first stage wherever that is.
  if (s.place.first && input && s.ends.positions > 0)
    builder.once({false, true, true}, s.ends.positions * s.stream.hidden, [](UnitWork&) {});
  if (input) tower_backward(s, builder);
  if (input) builder.micro_batch();
  return std::move(builder.work);
}

/// S, T and the input passes (arXiv:2411.05288 §4): S is the scores (with one barrier also their product
/// with the weights), T the rest.
ActionWork vocabulary_pass(const StageShape& s, ActionType type) {
  if (!s.vocabulary.carries) {
    throw InputError("operators: " + std::string(name_of(type)) + " on stage " +
                     std::to_string(s.place.stage) +
                     ", expected it on the lowest stage of a rank, with vocab_parallel");
  }
  FrameworkBuilder builder(s);
  const bool two = s.vocabulary.two_barriers;
  builder.once({true, type != ActionType::input_forward && type != ActionType::vocab_forward, true},
               s.ends.vocab * s.stream.hidden, [&](UnitWork& work) {
                 switch (type) {
                   case ActionType::input_forward:
                     embedding_forward(s, work);
                     break;
                   case ActionType::vocab_forward:
                     output_forward(s, work);
                     if (!two) output_backward_input(s, work);
                     break;
                   case ActionType::vocab_backward:
                     if (two) output_backward_input(s, work);
                     output_backward_weight(s, work);
                     break;
                   default:
                     embedding_backward(s, work);
                     break;
                 }
               });
  builder.work.fixed += Seconds{s.software->communication.vocabulary_pass_s};
  return std::move(builder.work);
}

}  // namespace

bool takes_recipe(const Software& software, Fp8Recipe recipe) {
  if (software.fp8.always) return true;
  switch (recipe) {
    case Fp8Recipe::delayed:
      return software.fp8.delayed_scaling;
    case Fp8Recipe::tensorwise:
      return software.fp8.tensorwise_scaling;
    case Fp8Recipe::blockwise:
      return software.fp8.blockwise_scaling;
    case Fp8Recipe::mxfp8:
      return software.fp8.mxfp8_scaling;
  }
  return false;
}

bool gathers_fp8(const StageShape& s) {
  return s.numerics.framework_fp8 && (s.numerics.fp8_weights || s.software->fp8.gather);
}

StageShape shape_of_work(StageShape shape) {
  shape.recomputation.layers = 1;  // the whole forward runs again, however it is cut
  if (shape.sharding.zero < 2) {   // gradients are reduced after the last backward
    shape.sharding.zero = 0;
    shape.sharding.state_shards = 1;
  }
  return shape;
}

ActionWork framework_work(const StageShape& shape, ActionType type) {
  if (type == ActionType::forward) return forward_work(shape);
  if (type == ActionType::backward) return backward_work(shape, true, true);
  if (type == ActionType::backward_input) return backward_work(shape, true, false);
  if (type == ActionType::backward_weight) return backward_work(shape, false, true);
  if (type >= ActionType::vocab_forward && type <= ActionType::input_backward)
    return vocabulary_pass(shape, type);
  throw InputError("operators: " + std::string(name_of(type)) + " with software other than plumbline; " +
                   "expected F, B, I, W, IF, S, T or IB");
}

}  // namespace plumbline
