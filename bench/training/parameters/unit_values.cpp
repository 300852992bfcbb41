#include "bench/training/parameters/unit_values.hpp"

#include <utility>

namespace plumbline::training {

UnitValues::UnitValues(const TrainingContext& context, const ParameterMemory& memory, int copies)
    : context_(context),
      memory_(memory),
      sharded_(memory.values.sharded && copies > 1),
      overlaps_(context.config.parallel.effective_overlap_param_gather()),
      in_place_(!memory.values.sharded && overlaps_ && context.config.parallel.effective_zero_stage() > 0),
      gathered_(in_place_ ? static_cast<std::size_t>(memory.units()) : 0) {}

void UnitValues::start_step() {
  gathered_.assign(gathered_.size(), false);
}

void UnitValues::begin_action(std::span<const int> uses) {
  uses_ = uses;
  at_ = 0;
  if (in_place_) return start_in_place(0);
  if (sharded_ && overlaps_ && !uses_.empty()) current_ = start(uses_.front());
}

Matrix UnitValues::begin() {
  const int unit = uses_[at_];
  if (in_place_) return begin_in_place(unit);
  if (!sharded_) {  // a piece is all of it where values are sharded, but no other rank has a copy
    return memory_.values.sharded ? memory_.owned(memory_.values, unit) : memory_.whole(memory_.values, unit);
  }
  if (at_ > 0 && uses_[at_ - 1] == unit) return current_.values;
  if (!overlaps_) current_ = start(unit);
  waited_ += context_.time_waited(current_.ticket);
  const std::size_t next = following(at_);
  if (overlaps_ && next < uses_.size()) next_ = start(uses_[next]);
  return current_.values;
}

void UnitValues::end() {
  const int unit = uses_[at_++];
  if (!sharded_ || (at_ < uses_.size() && uses_[at_] == unit)) return;
  current_.values.reset();
  current_ = std::move(next_);
}

std::size_t UnitValues::following(std::size_t at) const {
  std::size_t next = at + 1;
  while (next < uses_.size() && uses_[next] == uses_[at]) ++next;
  return next;
}

UnitValues::Gather UnitValues::start(int unit) {
  Gather gather;
  gather.values = context_.make(Category::parameters, "gathered parameters", 1, memory_.unit(unit).padded);
  gather.ticket = context_.communicator.start_all_gather(memory_.unit(unit).copies(),
                                                         memory_.owned(memory_.values, unit), gather.values);
  return gather;
}

void UnitValues::start_in_place(std::size_t at) {
  while (at < uses_.size() && gathered_[static_cast<std::size_t>(uses_[at])]) ++at;
  if (at == uses_.size()) return;
  const int unit = uses_[at];
  gathered_[static_cast<std::size_t>(unit)] = true;
  current_.unit = unit;
  current_.ticket = context_.communicator.start_all_gather(
      memory_.unit(unit).copies(), memory_.owned(memory_.values, unit), memory_.whole(memory_.values, unit));
}

Matrix UnitValues::begin_in_place(int unit) {
  if (current_.unit == unit) {
    waited_ += context_.time_waited(current_.ticket);
    current_.unit = -1;
    start_in_place(following(at_));
  }
  return memory_.whole(memory_.values, unit);
}

}  // namespace plumbline::training
