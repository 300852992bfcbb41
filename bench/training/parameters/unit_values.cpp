#include "bench/training/parameters/unit_values.hpp"

#include <utility>

namespace plumbline::training {

UnitValues::UnitValues(const TrainingContext& context, const ParameterMemory& memory)
    : context_(context), memory_(memory), sharded_(memory.values.sharded) {}

void UnitValues::begin_action(std::span<const int> uses) {
  uses_ = uses;
  at_ = 0;
  if (sharded_ && !uses_.empty()) current_ = start(uses_.front());
}

Matrix UnitValues::begin() {
  const int unit = uses_[at_];
  if (!sharded_) return memory_.whole(memory_.values, unit);
  if (at_ == 0 || uses_[at_ - 1] != unit) {
    context_.communicator.wait(current_.ticket);
    std::size_t following = at_ + 1;
    while (following < uses_.size() && uses_[following] == unit) ++following;
    if (following < uses_.size()) next_ = start(uses_[following]);
  }
  return current_.values;
}

void UnitValues::end() {
  const int unit = uses_[at_++];
  if (!sharded_ || (at_ < uses_.size() && uses_[at_] == unit)) return;
  current_.values.reset();
  current_ = std::move(next_);
}

UnitValues::Gather UnitValues::start(int unit) {
  Gather gather;
  gather.values = context_.make(Category::parameters, "gathered parameters", 1, memory_.unit(unit).padded);
  gather.ticket =
      context_.communicator.start_all_gather(Group::data, memory_.owned(memory_.values, unit), gather.values);
  return gather;
}

}  // namespace plumbline::training
