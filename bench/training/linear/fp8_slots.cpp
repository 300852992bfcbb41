#include "bench/training/linear/fp8_slots.hpp"

#include <algorithm>
#include <utility>

namespace plumbline::training {
namespace {

constexpr std::int64_t kForward = 2;  // slots of a linear layer: its input and its weight

}  // namespace

Fp8Slots::Fp8Slots(const TrainingContext& context, const RankParameters& parameters, SlotsOf of)
    : context_(context),
      parameters_(parameters),
      of_(of),
      delayed_(context.config.numerics.fp8.recipe == Fp8Recipe::delayed) {
  if (!context.config.numerics.fp8.on()) return;
  const Mixture& mixture = context.model().mixture;
  for (const StageEntry& stage : parameters.stages) {
    for (std::int64_t i = 0; i < stage.part.all_layers(); ++i) {
      const bool experts = mixture && stage.part.first_layer + i >= mixture.first_dense;
      layers_.push_back({linears_, experts});
      linears_ += linear_layers_of(experts);
    }
  }
  layers_.push_back({linears_, false});
  const std::int64_t slots = (kForward + 1) * linears_;
  if (slots == 0) return;
  const auto make = [&](const char* holder, std::int64_t rows, double value) {
    Tensor tensor = context.make_fp32(Category::workspace, holder, rows, slots);
    context.operators.fill(tensor, value);
    return tensor;
  };
  scales_ = make("scales", 2, 1);
  largest_ = make("largest values", 1, 0);
  if (delayed_) history_ = make("history of largest values", context.config.numerics.fp8.amax_history_len, 0);
  scaled_.resize(static_cast<std::size_t>(slots), false);
}

std::int64_t Fp8Slots::linear_layers_of(bool mixture) const {
  if (of_ == SlotsOf::experts) return mixture ? 2 * experts() : 0;
  const std::int64_t attention = context_.model().latent ? 4 : 2;
  return attention + (mixture && context_.shape.shared == 0 ? 0 : 2);
}

std::int64_t Fp8Slots::order_of(LinearLayer linear) const {
  const std::int64_t of_latent = of_ == SlotsOf::tokens && context_.model().latent ? 2 : 0;
  switch (linear) {
    case LinearLayer::qkv:
      return 0;
    case LinearLayer::proj:
      return 1;
    case LinearLayer::queries:
      return 2;
    case LinearLayer::keys_values:
      return 3;
    case LinearLayer::fc1:
      return (of_ == SlotsOf::experts ? 0 : 2) + of_latent;
    case LinearLayer::fc2:
      return (of_ == SlotsOf::experts ? 1 : 3) + of_latent;
  }
  return 0;
}

// Experts of one kind are neighbours, so that their scales are a row.
std::int64_t Fp8Slots::index(const Place& place) const {
  const std::int64_t before = layers_[static_cast<std::size_t>(place.layer)].first;
  const std::int64_t neighbours = of_ == SlotsOf::experts ? experts() : 1;
  const std::int64_t linear = order_of(place.linear);
  if (place.kind == SlotKind::gradient)
    return kForward * linears_ + before + linear * neighbours + place.expert;
  const std::int64_t weight = place.kind == SlotKind::weight ? neighbours : 0;
  return kForward * (before + linear * neighbours) + weight + place.expert;
}

DType Fp8Slots::type_of(SlotKind kind) const {
  const bool hybrid = context_.config.numerics.fp8.format == Fp8Format::hybrid;
  return kind == SlotKind::gradient && hybrid ? DType::fp8_e5m2 : DType::fp8_e4m3;
}

/// True for tensors with the rows of the residual stream, with sequence parallelism. Experts, and a shared
/// one, read all of it; so do the products that make queries, keys and values from latent attention's
/// compressed form.
bool Fp8Slots::split_by_rows(const Place& place) const {
  if (!context_.sequence_parallel || place.kind == SlotKind::weight || of_ == SlotsOf::experts) return false;
  if (place.linear == LinearLayer::queries || place.linear == LinearLayer::keys_values) return false;
  if (place.linear == LinearLayer::qkv && context_.model().latent) return true;
  const bool attention = place.linear == LinearLayer::qkv || place.linear == LinearLayer::proj;
  if (!attention && layers_[static_cast<std::size_t>(place.layer)].mixture) return false;
  const bool reads_stream = place.linear == LinearLayer::qkv || place.linear == LinearLayer::fc1;
  return reads_stream == (place.kind == SlotKind::input);
}

LinearOperand Fp8Slots::quantized(const Place& place, Category category, const char* holder,
                                  const Matrix& x) {
  const auto make = [&] {
    return context_.arena.allocate(category, holder, x.rows, x.cols, type_of(place.kind));
  };
  if (delayed_ || place.kind == SlotKind::weight) {
    Tensor y = make();
    quantize_in_place(place, x, y);
    return {std::move(y), {}, inverse_scale(place)};
  }
  Tensor own = context_.make_fp32(category, "scale of a tensor", 3, 1);
  const Matrix scales = own.matrix().row_range(0, 2);
  context_.operators.fill(scales, 1);
  Tensor y = make();
  quantize(place, x, scales, own.matrix().row_range(2, 1), y);
  return {std::move(y), std::move(own), scales.row_range(1, 1)};
}

LinearOperand Fp8Slots::quantized_rows(const Place& place, Category category, const char* holder,
                                       const Matrix& x, std::span<const std::int64_t> rows) {
  const auto all = std::ssize(rows);
  Tensor own;
  if (!delayed_ && place.kind != SlotKind::weight) {
    own = context_.make_fp32(category, "scales of a tensor", 3, all);
    context_.operators.fill(own.matrix().row_range(0, 2), 1);
  }
  Tensor y = context_.arena.allocate(category, holder, x.rows, x.cols, type_of(place.kind));
  Place here = place;
  std::int64_t row = 0;
  for (const std::int64_t count : rows) {
    const Matrix from = x.row_range(row, count);
    const Matrix to = y.matrix().row_range(row, count);
    if (count > 0 && own) {
      const Matrix scale = own.matrix().columns(here.expert, 1);
      quantize(here, from, scale.row_range(0, 2), scale.row_range(2, 1), to);
    } else if (count > 0) {
      quantize_in_place(here, from, to);
    }
    row += count;
    ++here.expert;
  }
  const Matrix inverse = own ? own.matrix().row_range(1, 1) : inverse_scale(place, all);
  return {std::move(y), std::move(own), inverse};
}

void Fp8Slots::quantize_in_place(const Place& place, const Matrix& x, const Matrix& y,
                                 const Matrix& transposed) {
  const std::int64_t slot = index(place);
  quantize(place, x, scales_.matrix().columns(slot, 1), largest_.matrix().columns(slot, 1), y, transposed);
}

LinearOperand Fp8Slots::transposed_weights(const Place& place, const char* holder, const Matrix& x,
                                           std::int64_t experts) {
  const std::int64_t out = x.rows / experts;
  Tensor all =
      context_.arena.allocate(Category::workspace, holder, experts * x.cols, out, type_of(place.kind));
  Place here = place;
  for (std::int64_t expert = 0; expert < experts; ++expert, ++here.expert)
    quantize_in_place(here, x.row_range(expert * out, out), {},
                      all.matrix().row_range(expert * x.cols, x.cols));
  return LinearOperand(std::move(all), inverse_scale(place, experts));
}

void Fp8Slots::quantize(const Place& place, const Matrix& x, const Matrix& scales, const Matrix& largest,
                        const Matrix& y, const Matrix& transposed) {
  Operators& operators = context_.operators;
  const auto slot = static_cast<std::size_t>(index(place));
  const auto into = [&](const Matrix& noted) {
    if (transposed.data == nullptr) return operators.fp8_quantize(x, scales, noted, y);
    operators.fp8_quantize_transpose(x, scales, noted, y, transposed);
  };
  if (delayed_ && scaled_[slot]) return into(largest);
  if (!delayed_) operators.fill(largest, 0);
  operators.fp8_amax(x, largest);
  if (split_by_rows(place)) context_.reduce_over_tensor_ranks(largest, ReduceOp::max);
  operators.fp8_scales(largest, largest_finite(type_of(place.kind)), context_.config.numerics.fp8.margin,
                       scales);
  into({});
  scaled_[slot] = true;
}

void Fp8Slots::end_step(int routes) {
  if (!delayed_ || !history_) return;
  Operators& operators = context_.operators;
  context_.communicator.all_reduce(Group::tensor, largest_, ReduceOp::max);
  const bool spread = of_ == SlotsOf::experts && context_.shape.spread;
  context_.communicator.all_reduce(spread ? Group::expert_data : Group::data, largest_, ReduceOp::max);
  if (spread && context_.config.parallel.dp.optimizer_instances > 1)
    context_.communicator.all_reduce(Group::between_instances, largest_, ReduceOp::max);
  if (routes > 1) reduce_between_copies();
  const Matrix& history = history_;
  operators.copy(largest_, history.row_range(steps_++ % history.rows, 1));
  operators.fill(largest_, 0);
  const auto rescale = [&](SlotKind kind, std::int64_t first, std::int64_t count) {
    operators.fp8_scales(history.columns(first, count), largest_finite(type_of(kind)),
                         context_.config.numerics.fp8.margin, scales_.matrix().columns(first, count));
  };
  rescale(SlotKind::input, 0, kForward * linears_);
  rescale(SlotKind::gradient, kForward * linears_, linears_);
  std::fill(scaled_.begin(), scaled_.end(), true);
}

void Fp8Slots::resume_after(std::int64_t steps) {
  steps_ = steps;
  std::fill(scaled_.begin(), scaled_.end(), delayed_);
}

// Both ranks hold the same two parts of the model, in opposite order.
void Fp8Slots::reduce_between_copies() const {
  struct Part {
    int index;
    std::int64_t first, linears;
  };
  std::vector<Part> parts;
  std::size_t layer = 0;
  for (const StageEntry& stage : parameters_.stages) {
    const std::int64_t first = layers_[layer].first;
    layer += static_cast<std::size_t>(stage.part.all_layers());
    parts.push_back({stage.part.index, first, layers_[layer].first - first});
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.index < b.index; });
  for (const Part& part : parts) {
    const auto reduce = [&](std::int64_t slot, std::int64_t slots) {
      if (slots == 0) return;
      context_.communicator.all_reduce(Group::mirror, largest_.matrix().columns(slot, slots), ReduceOp::max);
    };
    reduce(kForward * part.first, kForward * part.linears);
    reduce(kForward * linears_ + part.first, part.linears);
  }
}

}  // namespace plumbline::training
