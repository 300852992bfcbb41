#include "analysis/work/framework_list.hpp"

#include <algorithm>
#include <utility>

#include "analysis/work/framework_calls.hpp"
#include "analysis/work/parameter_units.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

using cluster::Software;

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
      part.gather =
          CallList::collective_call(CallKind::all_gather, "parameter all-gather", Group::data, s_.data, unit,
                                    !kind.apart && gathers_fp8(s_) ? DType::fp8_e4m3 : s_.type);
    }
    if (kind.gradient && s_.zero >= 2) {
      const std::int64_t trains = !s_.frozen() ? unit : kind.apart ? 0 : trainable_layer(s_);
      part.scatter = CallList::collective_call(CallKind::reduce_scatter, "gradient reduce-scatter",
                                               Group::data, s_.data, trains, s_.grad_type);
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
  /// The layers of an action in the order that their windows are in; `write(window, part)`.
  template <class Write>
  void layers(Kind kind, bool descending, Write&& write) {
    std::vector<std::pair<std::int64_t, std::size_t>> known;
    for (std::int64_t i = 0; i < s_.layers; ++i) {
      const std::int64_t window = s_.window_of(descending ? s_.layers - 1 - i : i);
      std::size_t index = 0;
      while (index < known.size() && known[index].first != window) ++index;
      if (index == known.size()) {
        known.emplace_back(window,
                           part(kind, layer_matrices(s_), [&](UnitWork& unit) { write(window, unit); }));
      }
      run(known[index].second);
    }
  }
  /// What a stage's host does per micro-batch outside the operators, half of it in each direction.
  void micro_batch() { work.host += Seconds{s_.framework->micro_batch_s / 2}; }

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
  calls.launches(10);
}

/// The lookup's gradient is a dense tensor of the whole table: cleared, and added to the gradient.
void embedding_backward(const StageShape& s, UnitWork& work) {
  FrameworkCalls calls(s, work);
  if (s.scaled_embedding) calls.stream("scale", s.tokens * s.hidden, 4);
  if (s.embedding_norm) calls.stream("norm backward", s.rows * s.hidden, 10);
  calls.stream("embedding backward", s.tokens * s.hidden, 6);
  calls.stream("embedding gradient", s.vocab * s.hidden, 4 + 2 * static_cast<double>(s.g()));
  calls.launches(8);
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
  calls.launches(20);
}

void output_backward_input(const StageShape& s, UnitWork& work) {
  FrameworkCalls calls(s, work);
  calls.stream("loss backward", s.tokens * s.vocab, 4 * s.framework->loss_backward_passes);
  calls.gemm("output layer", GemmPass::input_gradient, s.vocab, s.hidden);
  calls.stream("norm backward", s.rows * s.hidden, 10);
  calls.collective(s.sequence_parallel ? CallKind::reduce_scatter : CallKind::all_reduce, "output collective",
                   s.tokens * s.hidden, s.type);
  calls.launches(12);
}

void output_backward_weight(const StageShape& s, UnitWork& work) {
  FrameworkCalls calls(s, work);
  calls.gemm("output layer", GemmPass::weight_gradient, s.vocab, s.hidden);
  if (s.framework->weight_gradient_bytes > 0)
    calls.stream("add gradients", s.vocab * s.hidden, s.framework->weight_gradient_bytes);
  calls.launches(3);
}

ActionWork forward_work(const StageShape& s) {
  FrameworkBuilder builder(s);
  const std::int64_t table = s.vocab * s.hidden;
  if (s.embeds())
    builder.once({.values = true, .apart = true}, table, [&](UnitWork& w) { embedding_forward(s, w); });
  builder.layers({.values = true}, false, [&](std::int64_t window, UnitWork& work) {
    framework_layer(s, LayerPass::forward, window, false, work);
  });
  if (s.scores())
    builder.once({.values = true, .apart = true}, table, [&](UnitWork& w) { output_forward(s, w); });
  builder.micro_batch();
  return std::move(builder.work);
}

ActionWork backward_work(const StageShape& s, bool input, bool weight) {
  FrameworkBuilder builder(s);
  const std::int64_t table = s.vocab * s.hidden;
  if (s.scores()) {
    builder.once({input, weight, true}, table, [&](UnitWork& work) {
      if (input) output_backward_input(s, work);
      if (weight && !s.frozen()) output_backward_weight(s, work);
    });
  }
  builder.layers({input, weight, false}, true, [&](std::int64_t window, UnitWork& work) {
    if (input) framework_recomputation(s, window, work);
    if (input) framework_layer(s, LayerPass::backward_input, window, weight, work);
    if (weight) framework_layer(s, LayerPass::backward_weight, window, input, work);
  });
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

/// S, T and the input passes (arXiv:2411.05288 §4): S is the scores (with one barrier also their product with
/// the weights), T the rest.
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

/// Elements of a rank that train.
std::int64_t trained_elements(const HeldStages& rank) {
  std::int64_t elements = 0;
  for (const StageShape& s : rank.held) elements += trainable_elements(s);
  return elements;
}

}  // namespace

bool takes_recipe(const cluster::Software& software, Fp8Recipe recipe) {
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
  const std::int64_t elements = trained_elements(rank);
  if (any.zero == 0)
    list.collective(CallKind::all_reduce, "gradient all-reduce", Group::data, any.data, elements,
                    any.grad_type);
  if (any.zero == 1)
    list.collective(CallKind::reduce_scatter, "gradient reduce-scatter", Group::data, any.data, elements,
                    any.grad_type);
  list.collective(CallKind::all_reduce, "mirror all-reduce", Group::mirror, rank.mirror,
                  elements / (any.zero >= 1 ? any.data : 1), any.grad_type);
  return std::move(list.calls);
}

std::vector<OperatorCall> framework_update_calls(const HeldStages& rank) {
  const StageShape& any = rank.held.front();
  CallList list(any);
  const std::int64_t elements = trained_elements(rank);
  list.memory("optimizer step", any.zero >= 1 ? elements / any.data : elements,
              any.framework->optimizer_bytes);
  std::int64_t layers = 0;
  std::int64_t matrices = 0;  // of layers
  for (const StageShape& s : rank.held) {
    layers += s.layers;
    matrices += s.layers * layer_matrices(s);
  }
  // The forms that products read, written once for all micro-batches: and a pass for their scale.
  // Frozen ones are never written again.
  if (any.framework_fp8 && !any.framework->fp8 && any.zero < 3 && !any.frozen())
    list.memory(
        "cast weights to fp8", matrices,
        (any.fp4 || any.fp8_recipe == Fp8Recipe::tensorwise ? 4 : 2) + any.fp8_forms * any.operand_bytes);
  if (any.zero == 1 || any.zero == 2) {
    const std::int64_t narrow = gathers_fp8(any) && !any.frozen() ? matrices : 0;
    const std::size_t before = list.calls.size();
    list.collective(CallKind::all_gather, "parameter all-gather", Group::data, any.data, elements - narrow,
                    any.type);
    list.collective(CallKind::all_gather, "parameter all-gather", Group::data, any.data, narrow,
                    DType::fp8_e4m3);
    if (any.overlap_param_gather) {  // the first layer waits for its own
      for (std::size_t i = before; i < list.calls.size(); ++i)
        list.calls[i].share = 1.0 / static_cast<double>(std::max<std::int64_t>(layers, 1));
    }
  }
  return std::move(list.calls);
}

}  // namespace plumbline
