#include "bench/training/layer/fp8_slots.hpp"

#include <algorithm>
#include <utility>

namespace plumbline::training {
namespace {

constexpr std::int64_t kForward = 8;   // slots of a layer: input and weight of each linear layer
constexpr std::int64_t kGradient = 4;  // the gradient of its output

}  // namespace

Fp8Slots::Fp8Slots(const TrainingContext& context, const RankParameters& parameters)
    : context_(context),
      parameters_(parameters),
      delayed_(context.config.numerics.fp8.recipe == Fp8Recipe::delayed) {
  if (!context.config.numerics.fp8.on()) return;
  for (const StageEntry& stage : parameters.stages) layers_ += stage.part.layers;
  const std::int64_t slots = (kForward + kGradient) * layers_;
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

std::int64_t Fp8Slots::index(const Place& place) const {
  const auto linear = static_cast<std::int64_t>(place.linear);
  if (place.kind == SlotKind::gradient) return kForward * layers_ + kGradient * place.layer + linear;
  return kForward * place.layer + 2 * linear + (place.kind == SlotKind::weight ? 1 : 0);
}

DType Fp8Slots::type_of(SlotKind kind) const {
  const bool hybrid = context_.config.numerics.fp8.format == Fp8Format::hybrid;
  return kind == SlotKind::gradient && hybrid ? DType::fp8_e5m2 : DType::fp8_e4m3;
}

/// What has the shape of the residual stream, with sequence parallelism.
bool Fp8Slots::split_by_rows(const Place& place) const {
  if (!context_.sequence_parallel || place.kind == SlotKind::weight) return false;
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

void Fp8Slots::quantize_in_place(const Place& place, const Matrix& x, const Matrix& y) {
  const std::int64_t slot = index(place);
  quantize(place, x, scales_.matrix().columns(slot, 1), largest_.matrix().columns(slot, 1), y);
}

void Fp8Slots::quantize(const Place& place, const Matrix& x, const Matrix& scales, const Matrix& largest,
                        const Matrix& y) {
  Operators& operators = context_.operators;
  const auto slot = static_cast<std::size_t>(index(place));
  if (delayed_ && scaled_[slot]) {
    operators.fp8_quantize(x, scales, largest, y);
    return;
  }
  if (!delayed_) operators.fill(largest, 0);
  operators.fp8_amax(x, largest);
  if (split_by_rows(place)) context_.reduce_over_tensor_ranks(largest, ReduceOp::max);
  operators.fp8_scales(largest, largest_finite(y.dtype), context_.config.numerics.fp8.margin, scales);
  operators.fp8_quantize(x, scales, {}, y);
  scaled_[slot] = true;
}

void Fp8Slots::end_step(int routes) {
  if (!delayed_ || !history_) return;
  Operators& operators = context_.operators;
  context_.communicator.all_reduce(Group::tensor, largest_, ReduceOp::max);
  context_.communicator.all_reduce(Group::data, largest_, ReduceOp::max);
  if (routes > 1) reduce_between_copies();
  const Matrix& history = history_;
  operators.copy(largest_, history.row_range(steps_++ % history.rows, 1));
  operators.fill(largest_, 0);
  const auto rescale = [&](SlotKind kind, std::int64_t first, std::int64_t count) {
    operators.fp8_scales(history.columns(first, count), largest_finite(type_of(kind)),
                         context_.config.numerics.fp8.margin, scales_.matrix().columns(first, count));
  };
  rescale(SlotKind::input, 0, kForward * layers_);
  rescale(SlotKind::gradient, kForward * layers_, kGradient * layers_);
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
    std::int64_t first, layers;
  };
  std::vector<Part> parts;
  std::int64_t first = 0;
  for (const StageEntry& stage : parameters_.stages) {
    parts.push_back({stage.part.index, first, stage.part.layers});
    first += stage.part.layers;
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.index < b.index; });
  for (const Part& part : parts) {
    const auto reduce = [&](std::int64_t slot, std::int64_t slots) {
      if (slots == 0) return;
      context_.communicator.all_reduce(Group::mirror, largest_.matrix().columns(slot, slots), ReduceOp::max);
    };
    reduce(kForward * part.first, kForward * part.layers);
    reduce(kForward * layers_ + kGradient * part.first, kGradient * part.layers);
  }
}

}  // namespace plumbline::training
