#include "analysis/memory/stage/stage_memory.hpp"

#include <algorithm>
#include <vector>

#include "analysis/work/parameter_units.hpp"

namespace plumbline {

StageReplay::StageReplay(const StageShape& shape, ActionType type, const FinalUnits& final_units,
                         ReductionUnderWay& under_way, Replay& replay)
    : s_(shape),
      kinds_(kinds_of(shape)),
      bytes_(kinds_.front().bytes),
      experts_(shape.mixture()),
      final_(final_units),
      kept_(type == ActionType::teacher_forward ? Category::teacher : kActivations),
      module_unit_(padded_module_unit(shape)),
      layer_unit_(kinds_.front().unit),
      adapted_(adapted_products(shape).size()),
      spread_unit_(shape.exchanges_rows() && !shape.adapters.own ? padded_expert_unit(shape) : 0),
      vocabulary_unit_(shape.adapters.own ? 0 : padded_vocabulary_unit(shape)),
      output_unit_(shape.adapters.own ? 0 : padded_output_unit(shape)),
      position_unit_(shape.adapters.own ? 0 : padded_unit(shape, shape.ends.positions * shape.stream.hidden)),
      under_way_(under_way),
      replay_(replay),
      values_(replay, units_in_order_of_use(type), shape.overlap.param_gather),
      expert_values_(replay, experts_in_order_of_use(type), shape.overlap.param_gather) {
  if (kinds_.size() == 1) return;
  std::int64_t end = 0;
  for (const AlikeLayers& alike : shape.alike_layers()) cuts_.push_back(end += alike.layers);
  cuts_.pop_back();  // all layers
}

std::int64_t StageReplay::group_size() const {
  return s_.recomputation.granularity == Recompute::full ? s_.recomputation.layers : 1;
}

std::int64_t StageReplay::groups() const {
  return (s_.layers + group_size() - 1) / group_size();
}

void StageReplay::gather_stream() {
  take(kWorkspace, bytes_.stream.gathered);
}
void StageReplay::release_gathered() {
  give(kWorkspace, bytes_.stream.gathered);
}

void StageReplay::sum_over_tensor_ranks(std::int64_t passing) {
  sum_over_tensor_ranks([&] {
    take(kWorkspace, passing);
    give(kWorkspace, passing);
  });
}

void StageReplay::sum_over_tensor_ranks(const std::function<void()>& make) {
  take(kWorkspace, bytes_.stream.partial);
  make();
  take(kWorkspace, bytes_.stream.piece);
  give(kWorkspace, bytes_.stream.piece);
  give(kWorkspace, bytes_.stream.partial);
}

Category StageReplay::stage_gradient() const {
  return s_.place.last ? kWorkspace : kCommunication;
}

void StageReplay::forward(bool loss) {
  if (joint_before()) {
    take(kActivations, bytes_.stream.tensor);  // x, copied out of the message
    give(kCommunication, bytes_.teacher.joint);
  }
  if (s_.place.first) {
    if (s_.embeds()) {
      values_.begin_use();
      take(kActivations, bytes_.stream.tensor);
      gather_stream();  // the whole lookup, before it is reduced and scattered
      values_.end_use();
    }
    if (s_.ends.positions > 0) {
      values_.begin_use();
      values_.end_use();
    }
    if (s_.embeds()) release_gathered();
    if (s_.vocabulary.split) take_own_rows();
    embedding_norm_forward();
    take(kActivations, bytes_.stream.mask);
    give(kActivations, bytes_.stream.mask - embedding_mask());
  }
  const std::int64_t size = group_size();
  // Groups of equal layers: of one kind; those up to the last one that waits for a copy to the host, if any.
  std::vector<std::int64_t> cuts = {s_.recomputation.offloaded > 0 ? s_.recomputation.offloaded + 1 : 0};
  for (const std::int64_t cut : cuts_) cuts.insert(cuts.end(), {cut / size, (cut + size - 1) / size});
  std::sort(cuts.begin(), cuts.end());
  each(groups(), cuts, [&](std::int64_t group) {
    const std::int64_t begin = group * size;
    each(std::min(size, s_.layers - begin), cuts_from(begin), [&](std::int64_t i) {
      at_layer(begin + i);
      begin_layer_use();
      layer_forward(false);
      const bool leaves = begin + i == s_.layers - 1 && !s_.place.last && !s_.place.next_here;
      layer_output(leaves && !s_.distillation.joint);
      if (s_.recomputation.granularity == Recompute::full) {
        give(kActivations, kept_by_layer());
        if (i > 0) give(kActivations, bytes_.stream.tensor);  // x
      }
      end_layer_use();
      offload_after(begin + i);
    });
  });
  if (s_.place.last) {
    take(kActivations, bytes_.stream.tensor);  // final norm
    take(kActivations, bytes_.stream.statistics);
    if (s_.vocabulary.split) gather_hidden();
  }
  if (s_.scores()) {
    modules_forward();
    values_.begin_use();
    for (std::int64_t i = 0; i <= s_.own_modules(); ++i) {
      gather_stream();
      take(Category::logits, bytes_.loss.logits);
      if (i == s_.own_modules()) values_.end_use();
      release_gathered();
    }
    if (!s_.distillation.on) {
      for (std::int64_t i = 0; i <= s_.own_modules(); ++i) cross_entropy();
    } else if (loss) {
      distillation_loss();
    }
  }
  if (joint_after()) {  // y and the teacher's go into the send buffer
    give(kActivations, bytes_.stream.tensor);
    give(Category::teacher, bytes_.teacher.stream);
  }
}

/// All layers of a B (`weights`) or an I, group by group where they are recomputed.
void StageReplay::layers_backward(bool weights) {
  const bool full = s_.recomputation.granularity == Recompute::full;
  const std::int64_t size = group_size();
  // As in the forward, from the layer on at whose backward the first copy comes back.
  std::vector<std::int64_t> cuts;
  if (s_.recomputation.offloaded > 0) cuts.push_back(s_.layers - 1 - s_.recomputation.offloaded);
  for (const std::int64_t cut : cuts_)
    cuts.insert(cuts.end(), {groups() - (cut + size - 1) / size, groups() - cut / size});
  std::sort(cuts.begin(), cuts.end());
  each(groups(), cuts, [&](std::int64_t later) {
    const std::int64_t begin = (groups() - 1 - later) * size;
    const std::int64_t end = std::min(begin + size, s_.layers);
    if (full) recompute(begin, end);
    each(end - begin, cuts_before(end), [&](std::int64_t i) {
      const std::int64_t layer = end - 1 - i;
      at_layer(layer);
      if (!full || i > 0) begin_layer_use();
      fetch_before(layer);
      if (weights) {
        layer_backward(layer);
      } else {
        layer_backward_input(layer);
      }
      end_layer_use();
      if (weights) layer_gradients_done();
    });
  });
}

/// Gradients towards the output layer's inputs: the model's, then every module's.
void StageReplay::output_norm_gradients() {
  round_logits_gradient();
  values_.begin_use();
  for (std::int64_t i = 0; i <= s_.own_modules(); ++i) {
    if (i > 0) round_logits_gradient();
    take(kWorkspace, bytes_.stream.tensor);  // dnorm
    sum_over_tensor_ranks();
  }
  values_.end_use();
}

void StageReplay::output_layer_weight() {
  if (!s_.adapters.own) {
    gather_stream();
    release_gathered();
  }
  give(Category::logits, bytes_.loss.logits);
}

void StageReplay::output_weight_gradients() {
  first_gradient_of(output_unit_);
  for (std::int64_t i = 0; i <= s_.own_modules(); ++i) output_layer_weight();
}

/// The embedded tokens stay beside their norm.
void StageReplay::embedding_norm_forward() {
  if (!s_.ends.embedding_norm) return;
  take(kept_, bytes_.stream.tensor);
  take(kept_, bytes_.stream.statistics);
}

/// Its own gradient takes the place of that of its output.
void StageReplay::embedding_norm_backward(Category gradient) {
  if (!s_.ends.embedding_norm) return;
  if (!s_.adapters.own) {
    take(kWorkspace, bytes_.stream.tensor);
    give(gradient, bytes_.stream.tensor);
  }
  give(kActivations, bytes_.stream.tensor + bytes_.stream.statistics);
}

/// Category of the gradient that embedding and positions receive on a first stage.
Category StageReplay::embedded_gradient() const {
  return s_.ends.embedding_norm && !s_.adapters.own ? kWorkspace : stage_gradient();
}

void StageReplay::embedding_backward() {
  if (s_.adapters.own) return;
  gather_stream();
  if (lookup_under_way_ && s_.ends.shared_lookup) under_way_.finish(replay_);  // of the same unit
  first_gradient_of(vocabulary_unit_);
  gradient_done(vocabulary_unit_, final_.embedding);
  position_backward();
  release_gathered();
}

void StageReplay::position_backward() {
  if (s_.ends.positions == 0) return;
  first_gradient_of(position_unit_);
  gradient_done(position_unit_, final_.positions);
}

/// G of a last stage. Without layers it is the gradient that the stage passes on.
void StageReplay::take_stage_gradient(Category category) {
  if (s_.layers > 0) {
    take(category, bytes_.stream.tensor);
  } else if (s_.place.previous_here) {
    take(kCommunication, bytes_.stream.tensor);
  }
}

void StageReplay::backward() {
  if (joint_after()) {
    take(kCommunication, bytes_.stream.tensor);  // G, copied out of the message
    give(kCommunication, bytes_.teacher.joint);
  }
  if (s_.scores()) {
    output_norm_gradients();
    if (!s_.ends.defers_output_gradient) {
      output_weight_gradients();
      gradient_done(output_unit_, final_.output);
    }
    modules_backward(true);
    take_stage_gradient(kWorkspace);
    give(kWorkspace, bytes_.stream.tensor);
    give(kActivations, bytes_.stream.tensor + bytes_.stream.statistics);            // final input, statistics
    if (!s_.ends.defers_output_gradient) give(kActivations, bytes_.stream.tensor);  // final norm output
  } else if (s_.place.last) {
    take_output_gradient();
    take_stage_gradient(kWorkspace);
    give(kWorkspace, bytes_.stream.tensor);
    give(kActivations, bytes_.stream.tensor + bytes_.stream.statistics);  // final input
  }
  layers_backward(true);
  if (s_.place.first) {
    give(kActivations, embedding_mask());  // G is dropped in place
    embedding_norm_backward(stage_gradient());
  }
  if (s_.place.first && s_.vocabulary.split) {
    gather_input_gradient(embedded_gradient());
  } else {
    if (s_.place.first) embedding_backward();
    if (s_.layers > 0) give(s_.place.first ? embedded_gradient() : stage_gradient(), bytes_.stream.tensor);
  }
  end_of_action();
}

/// Leaves the gradient in place of its input.
void StageReplay::cross_entropy() {
  take(kLogits, bytes_.loss.fp32_logits);
  take(kWorkspace, bytes_.loss.statistics);
  give(kWorkspace, bytes_.loss.statistics);
  if (s_.ends.loss_in_fp32) give(kLogits, bytes_.loss.logits);
}

/// The fp32 copy takes the place of the logits; nothing without one.
void StageReplay::widen_logits() {
  if (!s_.ends.loss_in_fp32) return;
  take(kLogits, bytes_.loss.fp32_logits);
  give(kLogits, bytes_.loss.logits);
}

/// The gradient takes the place of the fp32 one, for the products; nothing without one.
void StageReplay::round_logits_gradient() {
  if (!s_.ends.loss_in_fp32) return;
  take(kLogits, bytes_.loss.logits);
  give(kLogits, bytes_.loss.fp32_logits);
}

}  // namespace plumbline
