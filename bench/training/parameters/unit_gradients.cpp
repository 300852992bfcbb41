#include "bench/training/parameters/unit_gradients.hpp"

namespace plumbline::training {

UnitGradients::UnitGradients(const TrainingContext& context, const RankParameters& parameters,
                             const ParameterMemory& memory)
    : context_(context),
      memory_(memory),
      zero_stage_(context.config.parallel.effective_zero_stage()),
      alone_(context.communicator.layout().data == 1),
      spread_alone_(context.config.parallel.expert_copies() == 1),
      reduces_(!alone_ || (context.config.spreads_experts() && !spread_alone_)),
      has_instances_(context.config.parallel.dp.optimizer_instances > 1),
      overlaps_(context.config.parallel.effective_overlap_grad_reduce()),
      contributions_(parameters.units.size(), 0),
      outstanding_(parameters.units.size(), 0),
      full_(parameters.units.size()) {
  if (reduces_ && zero_stage_ == 0) make_buckets(parameters);
  if (!reduces_ || zero_stage_ != 1 || overlaps_) return;
  stages_last_units_first_.reserve(parameters.units.size());
  for (const StageEntry& stage : parameters.stages) {
    for (int unit = static_cast<int>(stage.parameters.unit_elements.size()); unit-- > 0;)
      if (!alone(stage.first_unit + unit)) stages_last_units_first_.push_back(stage.first_unit + unit);
  }
}

void UnitGradients::make_buckets(const RankParameters& parameters) {
  bucket_of_unit_.resize(parameters.units.size());
  for (const StageEntry& stage : parameters.stages) {
    const std::size_t first = static_cast<std::size_t>(stage.first_unit);
    bool opens = true;
    for (std::size_t unit = first + stage.parameters.unit_elements.size(); unit-- > first;) {
      const Unit& next = parameters.units[unit];
      if (alone(static_cast<int>(unit))) continue;
      if (opens || buckets_.back().group != next.group) {
        buckets_.emplace_back();
        buckets_.back().group = next.group;
        buckets_.back().waits_for_end = true;  // until it is full
      }
      Bucket& bucket = buckets_.back();
      bucket.first = next.trained_offset;
      bucket.elements += next.padded;
      ++bucket.units;
      bucket_of_unit_[unit] = buckets_.size() - 1;
      opens = bucket.elements >= context_.config.parallel.dp.bucket_size;
      if (opens && overlaps_) bucket.waits_for_end = false;
    }
  }
}

void UnitGradients::expect(int unit, int contributions) {
  contributions_[static_cast<std::size_t>(unit)] += contributions;
}

void UnitGradients::start_step() {
  outstanding_ = contributions_;
  for (Bucket& bucket : buckets_) {
    bucket.open_units = bucket.units;
    bucket.started = false;
  }
}

Matrix UnitGradients::open(int unit) {
  if (zero_of(unit) < 2) {
    return memory_.gradients.sharded ? memory_.owned(memory_.gradients, unit)
                                     : memory_.whole(memory_.gradients, unit);
  }
  if (under_way_.unit == unit) finish_scatter();
  Tensor& full = full_[static_cast<std::size_t>(unit)];
  if (!full) {
    full = context_.arena.allocate(Category::gradients, "unit gradient", 1, memory_.unit(unit).padded,
                                   context_.config.numerics.grad_type());
    context_.operators.fill(full, 0);
  }
  return full;
}

void UnitGradients::done(int unit) {
  if (!reduces_ || alone(unit)) return;
  const bool is_final = --outstanding_[static_cast<std::size_t>(unit)] == 0;
  if (zero_stage_ >= 2 || (zero_stage_ == 1 && is_final && overlaps_)) {
    start_scatter(unit);
    if (!overlaps_) finish_scatter();
  } else if (is_final && zero_stage_ == 0) {
    Bucket& bucket = buckets_[bucket_of_unit_[static_cast<std::size_t>(unit)]];
    if (--bucket.open_units == 0 && !bucket.waits_for_end) start(bucket);
  }
  context_.communicator.progress();
}

void UnitGradients::end_action() {
  if (zero_stage_ >= 2) finish_scatter();
}

void UnitGradients::finish_step() {
  if (!reduces_) return;
  for (const int unit : stages_last_units_first_) start_scatter(unit);
  finish_scatter();
  for (Bucket& bucket : buckets_) {
    if (!bucket.started) start(bucket);
  }
  for (Bucket& bucket : buckets_) context_.communicator.wait(bucket.ticket);
  if (context_.frozen) return;
  context_.communicator.all_reduce(Group::data, memory_.gradients.vectors, ReduceOp::sum);
}

void UnitGradients::start(Bucket& bucket) {
  const Matrix& all = memory_.gradients.matrices;
  bucket.ticket = context_.communicator.start_all_reduce(
      bucket.group, Matrix(all.at(0, bucket.first), 1, bucket.elements, all.dtype), ReduceOp::sum);
  bucket.started = true;
}

void UnitGradients::start_scatter(int unit) {
  finish_scatter();
  const Matrix whole = zero_stage_ >= 2 ? full_[static_cast<std::size_t>(unit)].matrix()
                                        : memory_.whole(memory_.gradients, unit);
  under_way_.unit = unit;
  under_way_.piece = context_.arena.allocate(Category::gradients, "reduced gradient piece", 1,
                                             memory_.owned_elements(unit), whole.dtype);
  under_way_.ticket =
      context_.communicator.start_reduce_scatter(memory_.unit(unit).group, whole, under_way_.piece);
  if (has_instances_) {
    under_way_.ticket = context_.communicator.start_all_reduce_after(
        under_way_.ticket, {}, Group::between_instances, under_way_.piece, ReduceOp::sum);
  }
}

void UnitGradients::finish_scatter() {
  if (under_way_.unit < 0) return;
  waited_ += context_.time_waited(under_way_.ticket);
  const Matrix owned = memory_.owned(memory_.gradients, under_way_.unit);
  if (zero_stage_ >= 2) {
    context_.operators.add(owned, under_way_.piece, {}, owned);
  } else {
    const Seconds start = context_.communicator.now();
    context_.operators.copy(under_way_.piece, owned);
    waited_ += context_.communicator.now() - start;
  }
  under_way_.piece.reset();
  full_[static_cast<std::size_t>(under_way_.unit)].reset();
  under_way_.unit = -1;
}

}  // namespace plumbline::training
