#include "analysis/work/framework_list.hpp"

#include <algorithm>
#include <utility>

#include "analysis/work/framework_calls.hpp"
#include "analysis/work/parameter_units.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// Piece of a reduced gradient of `elements` elements, summed over the optimizer instances: its neighbours
/// are as many ranks apart as an instance has.
OperatorCall between_instances(const StageShape& s, std::int64_t elements, DType type) {
  OperatorCall call =
      CallList::collective_call(CallKind::all_reduce, "gradient all-reduce between instances", Group::data,
                                s.optimizer_instances, elements / s.state_shards, type);
  call.stride = s.tensor * s.state_shards;
  return call;
}

/// Puts an action together. Parameters of ZeRO 3 are gathered unit by unit, gradients of ZeRO 2 and 3
/// scattered.
class FrameworkBuilder {
 public:
  explicit FrameworkBuilder(const StageShape& shape) : s_(shape) {
    work.gathers_ahead = shape.overlap_param_gather;
    work.scatters_go_on = shape.overlap_grad_reduce;
  }

  struct Kind {
    bool values = false;
    bool gradient = false;
    bool apart = false;
  };
  template <class Write>
  std::size_t part(Kind kind, std::int64_t unit, Write&& write) {
    UnitWork part;
    part.apart = kind.apart;
    part.final_gradient = kind.gradient;
    write(part);
    if (kind.values && s_.zero >= 3) {
      part.gather = CallList::collective_call(CallKind::all_gather, "parameter all-gather", Group::data,
                                              s_.state_shards, unit,
                                              !kind.apart && gathers_fp8(s_) ? DType::fp8_e4m3 : s_.type);
    }
    if (kind.gradient && s_.zero >= 2) {
      const std::int64_t trains = !s_.frozen() ? unit : kind.apart ? 0 : trainable_layer(s_);
      part.scatter = CallList::collective_call(CallKind::reduce_scatter, "gradient reduce-scatter",
                                               Group::data, s_.state_shards, trains, s_.grad_type);
      if (s_.optimizer_instances > 1) part.between = between_instances(s_, trains, s_.grad_type);
    }
    work.parts.push_back(std::move(part));
    return work.parts.size() - 1;
  }
  void run(std::size_t part) {
    if (!work.runs.empty() && work.runs.back().part == part) {
      ++work.runs.back().repeat;
    } else {
      work.runs.push_back({part, 1});
    }
  }
  template <class Write>
  void once(Kind kind, std::int64_t unit, Write&& write) {
    run(part(kind, unit, write));
  }
  /// The layers of an action in the order of their kinds and windows; `write(layer's stage, window, part)`.
  template <class Write>
  void layers(Kind kind, bool descending, Write&& write) {
    const bool mixed = s_.dense_layers > 0;
    const StageShape dense = mixed ? s_.like_layer(0) : StageShape();
    const StageShape rest = mixed ? s_.like_layer(s_.dense_layers) : StageShape();
    struct Known {
      bool dense;
      std::int64_t window;
      std::size_t part;
    };
    std::vector<Known> known;
    for (std::int64_t i = 0; i < s_.layers; ++i) {
      const std::int64_t layer = descending ? s_.layers - 1 - i : i;
      const bool is_dense = mixed && layer < s_.dense_layers;
      const StageShape& stage = is_dense ? dense : mixed ? rest : s_;
      const std::int64_t window = s_.window_of(layer);
      const auto same = [&](const Known& each) { return each.dense == is_dense && each.window == window; };
      auto found = std::find_if(known.begin(), known.end(), same);
      if (found == known.end()) {
        const auto fill = [&](UnitWork& unit) { write(stage, window, unit); };
        found = known.insert(found, Known{is_dense, window, part(kind, layer_matrices(stage), fill)});
      }
      run(found->part);
    }
  }
  /// Host time of a stage per micro-batch outside the operators, half of it in each direction.
  void micro_batch() {
    if (!s_.graphs.step) work.host += Seconds{s_.framework->micro_batch_s / 2};
  }

  ActionWork work;

 private:
  const StageShape& s_;
};

void embedding_forward(const StageShape& s, UnitWork& work) {
  FrameworkCalls calls(s, work);
  const std::int64_t stream = s.tokens * s.hidden;
  calls.stream("embedding", stream, 4);
  if (s.tensor > 1) {
    calls.stream("mask", stream, 4);
    calls.collective(s.sequence_parallel ? CallKind::reduce_scatter : CallKind::all_reduce,
                     "embedding collective", stream, s.type);
  }
  if (s.positions > 0) calls.stream("positions", stream, 6);
  if (s.scaled_embedding) calls.stream("scale", stream, 4);
  if (s.embedding_norm) calls.stream("norm", s.rows * s.hidden, 2 * s.framework->norm_passes);
  if (s.hidden_dropout) calls.stream("dropout", s.rows * s.hidden, 5);
  calls.launches_eagerly(10);
}

/// The lookup's gradient is a dense tensor of the whole table: cleared, and added to the gradient.
void embedding_backward(const StageShape& s, UnitWork& work) {
  FrameworkCalls calls(s, work);
  if (s.scaled_embedding) calls.stream("scale", s.tokens * s.hidden, 4);
  if (s.embedding_norm) calls.stream("norm backward", s.rows * s.hidden, 10);
  calls.stream("embedding backward", s.tokens * s.hidden, 6);
  calls.stream("embedding gradient", s.vocab * s.hidden, 4 + 2 * static_cast<double>(s.g()));
  calls.launches_eagerly(8);
}

void output_forward(const StageShape& s, UnitWork& work) {
  FrameworkCalls calls(s, work);
  calls.stream("norm", s.rows * s.hidden, 4);
  calls.gemm("output layer", GemmPass::forward, s.vocab, s.hidden);
  calls.stream("loss", s.tokens * s.vocab, 4 * s.framework->loss_passes);
  if (s.sequence_parallel)
    calls.collective(CallKind::all_gather, "output all-gather", s.tokens * s.hidden, s.type);
  for (int statistic = 0; statistic < 3; ++statistic)
    calls.collective(CallKind::all_reduce, "loss all-reduce", s.tokens, DType::fp32);
  calls.launches_eagerly(20);
}

void output_backward_input(const StageShape& s, UnitWork& work) {
  FrameworkCalls calls(s, work);
  calls.stream("loss backward", s.tokens * s.vocab, 4 * s.framework->loss_backward_passes);
  calls.gemm("output layer", GemmPass::input_gradient, s.vocab, s.hidden);
  calls.stream("norm backward", s.rows * s.hidden, 10);
  calls.collective(s.sequence_parallel ? CallKind::reduce_scatter : CallKind::all_reduce, "output collective",
                   s.tokens * s.hidden, s.type);
  calls.launches_eagerly(12);
}

void output_backward_weight(const StageShape& s, UnitWork& work) {
  FrameworkCalls calls(s, work);
  calls.gemm("output layer", GemmPass::weight_gradient, s.vocab, s.hidden);
  if (s.framework->weight_gradient_bytes > 0)
    calls.stream("add gradients", s.vocab * s.hidden, s.framework->weight_gradient_bytes);
  calls.launches_eagerly(3);
}

/// MTP modules: the next tokens' embeddings and the stream, both normed, become one stream again, which goes
/// through a layer and the output layer (multi_token_prediction.py). Their gradients are not reduced here.
void prediction_modules_forward(const StageShape& s, FrameworkBuilder& builder) {
  const StageShape layer = s.like_layer(s.dense_layers);
  for (std::int64_t module = 0; module < s.prediction_modules; ++module) {
    builder.once({}, 0, [&](UnitWork& work) {
      FrameworkCalls calls(s, work);
      calls.stream("embedding", s.tokens * s.hidden, 4);
      calls.stream("norm", 2 * s.rows * s.hidden, 2 * s.framework->norm_passes);
      calls.stream("concatenate", 2 * s.rows * s.hidden, 4);
      calls.linear("prediction module", GemmPass::forward, s.hidden / s.tensor, 2 * s.hidden);
      calls.launches_eagerly(12);
    });
    builder.once({}, 0, [&](UnitWork& work) { framework_layer(layer, LayerPass::forward, 0, false, work); });
    builder.once({.apart = true}, 0, [&](UnitWork& work) { output_forward(s, work); });
  }
}

void prediction_modules_backward(const StageShape& s, bool input, bool weight, FrameworkBuilder& builder) {
  const StageShape layer = s.like_layer(s.dense_layers);
  for (std::int64_t module = 0; module < s.prediction_modules; ++module) {
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
      const std::int64_t width = s.hidden / s.tensor;
      if (weight) calls.linear("prediction module", GemmPass::weight_gradient, width, 2 * s.hidden);
      if (!input) return;
      calls.linear("prediction module", GemmPass::input_gradient, width, 2 * s.hidden);
      calls.stream("norm backward", 2 * s.rows * s.hidden, 10);
      calls.stream("embedding backward", s.tokens * s.hidden, 6);
      calls.launches_eagerly(16);
    });
  }
}

ActionWork forward_work(const StageShape& s) {
  FrameworkBuilder builder(s);
  const std::int64_t table = s.vocab * s.hidden;
  if (s.embeds())
    builder.once({.values = true, .apart = true}, table, [&](UnitWork& w) { embedding_forward(s, w); });
  builder.layers({.values = true}, false, [](const StageShape& layer, std::int64_t window, UnitWork& work) {
    framework_layer(layer, LayerPass::forward, window, false, work);
  });
  if (s.scores())
    builder.once({.values = true, .apart = true}, table, [&](UnitWork& w) { output_forward(s, w); });
  if (s.scores()) prediction_modules_forward(s, builder);
  builder.micro_batch();
  return std::move(builder.work);
}

ActionWork backward_work(const StageShape& s, bool input, bool weight) {
  FrameworkBuilder builder(s);
  const std::int64_t table = s.vocab * s.hidden;
  if (s.scores()) prediction_modules_backward(s, input, weight, builder);
  if (s.scores()) {
    builder.once({input, weight, true}, table, [&](UnitWork& work) {
      if (input) output_backward_input(s, work);
      if (weight && !s.frozen()) output_backward_weight(s, work);
    });
  }
  const auto layer = [&](const StageShape& stage, std::int64_t window, UnitWork& work) {
    if (input) framework_recomputation(stage, window, work);
    if (input) framework_layer(stage, LayerPass::backward_input, window, weight, work);
    if (weight) framework_layer(stage, LayerPass::backward_weight, window, input, work);
  };
  builder.layers({input, weight, false}, true, layer);
  // Only linear layers have a weight gradient of their own: the lookup's goes with the input gradients.
  if (s.embeds() && input) {
    builder.once({false, true, true}, table, [&](UnitWork& work) {
      if (!s.frozen()) embedding_backward(s, work);
    });
  }
  // Positions are a unit of their own, final with the lookup, or on the first stage wherever that is.
  if (s.first && input && s.positions > 0)
    builder.once({false, true, true}, s.positions * s.hidden, [](UnitWork&) {});
  if (input) builder.micro_batch();
  return std::move(builder.work);
}

/// S, T and the input passes (arXiv:2411.05288 §4): S is the scores (with one barrier also their product
/// with the weights), T the rest.
ActionWork vocabulary_pass(const StageShape& s, ActionType type) {
  if (!s.vocabulary.carries) {
    throw InputError("operators: " + std::string(name_of(type)) + " on stage " + std::to_string(s.stage) +
                     ", expected it on the lowest stage of a rank, with vocab_parallel");
  }
  FrameworkBuilder builder(s);
  const bool two = s.vocabulary.two_barriers;
  builder.once({true, type != ActionType::input_forward && type != ActionType::vocab_forward, true},
               s.vocab * s.hidden, [&](UnitWork& work) {
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
  builder.work.fixed += Seconds{s.framework->vocabulary_pass_s};
  return std::move(builder.work);
}

/// Elements of a rank that train: of experts that are spread over ranks, and the rest.
struct Trained {
  std::int64_t experts = 0;
  std::int64_t rest = 0;
};
Trained trained_elements(const HeldStages& rank) {
  Trained elements;
  for (const StageShape& s : rank.held) {
    elements.experts += spread_expert_elements(s);
    elements.rest += trainable_elements(s) - spread_expert_elements(s);
  }
  return elements;
}

/// Reductions and gathers of the two kinds of parameters, each among the ranks that hold the same.
class CopiesCalls {
 public:
  CopiesCalls(const StageShape& shape, CallList& list) : s_(shape), list_(list) {}

  /// All-reduces are among all copies, gathers and scatters within an instance of the optimizer.
  void rest(CallKind kind, const char* label, std::int64_t elements, DType type) {
    list_.collective(kind, label, Group::data, kind == CallKind::all_reduce ? s_.data : s_.state_shards,
                     elements, type);
  }
  void experts(CallKind kind, const char* label, std::int64_t elements, DType type) {
    among(kind, label, kind == CallKind::all_reduce ? s_.expert.copies : s_.expert.state_shards,
          s_.expert.tensor * s_.expert.ranks, elements, type);
  }
  /// The reduced pieces of both, summed over the instances.
  void between(const Trained& elements) {
    const int instances = s_.optimizer_instances;
    if (instances == 1) return;
    list_.calls.push_back(between_instances(s_, elements.rest, s_.grad_type));
    among(CallKind::all_reduce, "expert gradient all-reduce between instances", instances,
          s_.expert.tensor * s_.expert.ranks * s_.expert.state_shards,
          elements.experts / s_.expert.state_shards, s_.grad_type);
  }

 private:
  void among(CallKind kind, const char* label, int ranks, int stride, std::int64_t elements, DType type) {
    const std::size_t before = list_.calls.size();
    list_.collective(kind, label, Group::data, ranks, elements, type);
    if (list_.calls.size() > before) list_.calls.back().stride = stride;
  }

  const StageShape& s_;
  CallList& list_;
};

}  // namespace

bool takes_recipe(const Software& software, Fp8Recipe recipe) {
  if (software.fp8) return true;
  switch (recipe) {
    case Fp8Recipe::delayed:
      return software.delayed_scaling;
    case Fp8Recipe::tensorwise:
      return software.tensorwise_scaling;
    case Fp8Recipe::blockwise:
      return software.blockwise_scaling;
    case Fp8Recipe::mxfp8:
      return software.mxfp8_scaling;
  }
  return false;
}

bool gathers_fp8(const StageShape& s) {
  return s.framework_fp8 && (s.fp8_weights || s.framework->fp8_gather);
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

std::vector<OperatorCall> framework_reduction_calls(const HeldStages& rank) {
  const StageShape& any = rank.held.front();
  CallList list(any);
  CopiesCalls copies(any, list);
  const Trained elements = trained_elements(rank);
  if (any.zero == 0) copies.rest(CallKind::all_reduce, "gradient all-reduce", elements.rest, any.grad_type);
  if (any.zero == 1)
    copies.rest(CallKind::reduce_scatter, "gradient reduce-scatter", elements.rest, any.grad_type);
  copies.experts(any.expert.sharded ? CallKind::reduce_scatter : CallKind::all_reduce,
                 "expert gradient reduction", elements.experts, any.grad_type);
  if (any.zero == 1) copies.between(elements);
  list.collective(
      CallKind::all_reduce, "mirror all-reduce", Group::mirror, rank.mirror,
      elements.rest / (any.zero >= 1 ? any.state_shards : 1) + elements.experts / any.expert.state_shards,
      any.grad_type);
  return std::move(list.calls);
}

std::vector<OperatorCall> framework_update_calls(const HeldStages& rank) {
  const StageShape& any = rank.held.front();
  CallList list(any);
  CopiesCalls copies(any, list);
  const Trained elements = trained_elements(rank);
  const std::int64_t experts = elements.experts / any.expert.state_shards;
  list.memory("optimizer step", experts + (any.zero >= 1 ? elements.rest / any.state_shards : elements.rest),
              any.framework->optimizer_bytes);
  std::int64_t layers = 0;
  std::int64_t matrices = 0;  // of layers
  for (const StageShape& s : rank.held) {
    layers += s.layers;
    matrices += stage_layer_matrices(s);
  }
  // The forms that products read, written once for all micro-batches: and a pass for their scale.
  // Frozen ones are never written again.
  if (any.framework_fp8 && !any.framework->fp8 && any.zero < 3 && !any.frozen())
    list.memory(
        any.fp4 ? "cast weights to fp4" : "cast weights to fp8", matrices,
        (any.fp4 || any.fp8_recipe == Fp8Recipe::tensorwise ? 4 : 2) + any.fp8_forms * any.operand_bytes);
  const std::size_t before = list.calls.size();
  const bool narrow = gathers_fp8(any) && !any.frozen();
  if (any.zero == 1 || any.zero == 2) {
    const std::int64_t in_fp8 = narrow ? matrices - elements.experts : 0;
    copies.rest(CallKind::all_gather, "parameter all-gather", elements.rest - in_fp8, any.type);
    copies.rest(CallKind::all_gather, "parameter all-gather", in_fp8, DType::fp8_e4m3);
  }
  if (any.expert.sharded) {
    copies.experts(CallKind::all_gather, "expert parameter all-gather", elements.experts,
                   narrow ? DType::fp8_e4m3 : any.type);
  }
  if (any.overlap_param_gather) {  // the first layer waits for its own
    for (std::size_t i = before; i < list.calls.size(); ++i)
      list.calls[i].share = 1.0 / static_cast<double>(std::max<std::int64_t>(layers, 1));
  }
  return std::move(list.calls);
}

}  // namespace plumbline
