// F, B, I and W of a stage, in parts that each use one unit of parameters.
#include <algorithm>
#include <string>
#include <utility>

#include "analysis/work/passes/end_passes.hpp"
#include "analysis/work/passes/layer_part.hpp"
#include "analysis/work/passes/layer_passes.hpp"
#include "analysis/work/passes/module_passes.hpp"
#include "analysis/work/passes/stage_passes.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace passes {
namespace {

void output_backward(const StageShape& s, WorkBuilder& builder, Passes passes) {
  output_gradients(s, builder, passes);
  modules_backward(s, builder, {passes.input, passes.weight || s.ends.defers_output_gradient});
  if (!passes.input) return;
  builder.once({}, 0, [&](CallList& list) {
    multiply_logits(s, list);
    norm_backward(s, list);
  });
}

ActionWork forward_work(const StageShape& s, bool teacher, bool first = false) {
  WorkBuilder builder(s, first);
  copy_joint_input(s, builder);
  if (s.place.first) {
    if (s.embeds()) embedding_forward(s, builder);
    embedded_forward(s, builder);
  }
  const LayerParts layers(s, [&](const StageShape& like, std::int64_t window) {
    return layer_part(builder, like, {true, false}, [&](CallList& list) {
      if (first) quantize_gathered(like, list);
      layer_forward(like, list, window, Forward::first);
    });
  });
  layers.run(builder, 0, s.layers);
  if (!teacher) modules_forward(s, builder, first);
  if (s.place.last) (teacher ? teacher_output : s.scores() ? output_forward : final_norm_forward)(s, builder);
  if (!teacher) copy_joint_output(s, builder);
  return std::move(builder.work);
}

/// The layers of B or I, last to first. With full recomputation each group, last first, is run forward again
/// before its layers' backward; its last layer's two uses are one.
void backward_layers(const StageShape& s, WorkBuilder& builder, Passes passes) {
  const WorkBuilder::Kind kind{passes.input, passes.weight};
  const auto parts_of = [&](Passes of, bool again) {
    return LayerParts(s, [&, of, again](const StageShape& like, std::int64_t window) {
      return layer_part(builder, like, kind, [&](CallList& list) {
        if (again) layer_forward(like, list, window, Forward::again_to_activation);
        layer_backward(like, list, window, of);
      });
    });
  };
  const bool full = s.recomputation.granularity == Recompute::full;
  // The model's first layer is apart where its input needs no gradient.
  const std::int64_t apart = s.place.first && s.adapters.own ? 1 : 0;
  const LayerParts plain = parts_of(passes, false);
  const auto descend = [&](std::int64_t first, std::int64_t end) {
    plain.run_descending(builder, std::max(first, apart), end);
    if (first >= apart || first >= end) return;
    parts_of({passes.input, passes.weight, true}, false).run_descending(builder, 0, 1);
  };
  if (!full) return descend(0, s.layers);
  const LayerParts again(s, [&](const StageShape& like, std::int64_t window) {
    return layer_part(builder, like, {true, false},
                      [&](CallList& list) { layer_forward(like, list, window, Forward::again); });
  });
  const LayerParts turn = parts_of(passes, true);
  const std::int64_t size = s.recomputation.layers;
  for (std::int64_t end = s.layers; end > 0;) {
    const std::int64_t in_group = end % size == 0 ? size : end % size;
    const std::int64_t first = end - in_group;
    again.run(builder, first, end - 1);
    if (end > apart) {
      turn.run(builder, end - 1, end);
    } else {
      parts_of({passes.input, passes.weight, true}, true).run(builder, 0, 1);
    }
    descend(first, end - 1);
    end -= in_group;
  }
}

/// The output layer's weight gradient alone, of a stage whose I has made the others.
ActionWork deferred_work(const StageShape& s) {
  WorkBuilder builder(s);
  output_gradients(s, builder, {false, true});
  return std::move(builder.work);
}

ActionWork backward_work(const StageShape& s, Passes passes) {
  if (s.ends.defers_output_gradient && !passes.input) return deferred_work(s);
  WorkBuilder builder(s);
  if (passes.input && s.distillation.joint && !s.place.last) {
    builder.once({}, 0, [&](CallList& list) { copy_stream(s, list, s.stream.hidden); });
  }
  if (s.scores()) output_backward(s, builder, passes);
  if (s.ends.defers_output_gradient) passes.weight = true;
  if (s.place.last && !s.scores() && passes.input) final_norm_backward(s, builder);
  if (passes.input) {
    backward_layers(s, builder, passes);
  } else {
    // Weight gradients have no attention.
    const LayerParts layers(
        s,
        [&](const StageShape& like, std::int64_t) {
          return layer_part(builder, like, {false, true},
                            [&](CallList& list) { layer_backward(like, list, 0, passes); });
        },
        false);
    layers.run_descending(builder, 0, s.layers);
  }
  if (s.place.first && passes.input && !s.adapters.own) {
    builder.once({}, 0, [&](CallList& list) {
      list.dropout_backward(true);
      if (s.ends.embedding_norm) {
        norm_backward(s, list);
        list.allocations(1);
      }
      scale_embedded(s, list, s.stream.rows * s.stream.hidden);
      if (!s.embeds()) list.gathered("embedding all-gather");
    });
    (s.embeds() ? embedding_backward : position_backward)(s, builder);
  }
  if (passes.input) copy_joint_input(s, builder);
  return std::move(builder.work);
}

}  // namespace
}  // namespace passes

ActionWork first_forward_work(const StageShape& shape) {
  return passes::forward_work(shape, false, true);
}

ActionWork passes::own_work(const StageShape& shape, ActionType type) {
  if (type == ActionType::forward) return forward_work(shape, false);
  if (type == ActionType::teacher_forward) return forward_work(shape, true);
  if (type == ActionType::backward) return backward_work(shape, {true, true});
  if (type == ActionType::backward_input) return backward_work(shape, {true, false});
  if (type == ActionType::backward_weight) return backward_work(shape, {false, true});
  if (type >= ActionType::vocab_forward && type <= ActionType::input_backward) {
    return vocabulary_work(shape, type);
  }
  throw InputError("operators: " + std::string(name_of(type)) +
                   " is no pass of a stage; expected F, B, I, W, TF, IF, S, T or IB");
}

}  // namespace plumbline
