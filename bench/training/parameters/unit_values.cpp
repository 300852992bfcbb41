#include "bench/training/parameters/unit_values.hpp"

#include <utility>

namespace plumbline::training {

UnitValues::UnitValues(const TrainingContext& context, const ParameterMemory& memory, int copies)
    : context_(context),
      memory_(memory),
      sharded_(memory.values.sharded && copies > 1),
      overlaps_(context.config.parallel.effective_overlap_param_gather()),
      in_place_(!memory.values.sharded && overlaps_ && copies > 1 &&
                context.config.parallel.effective_zero_stage() > 0),
      gathered_(in_place_ || memory.secondary ? static_cast<std::size_t>(memory.units()) : 0) {}

void UnitValues::start_step() {
  for (std::size_t unit = 0; unit < gathered_.size(); ++unit)
    gathered_[unit] = in_place_ && memory_.unit(static_cast<int>(unit)).shard;  // by OPT
}

void UnitValues::begin_action(std::span<const int> uses) {
  Action& mine = action();
  mine.uses = uses;
  mine.at = 0;
  if (in_place_) return start_in_place(mine, 0);
  if (sharded_ && overlaps_ && !uses.empty()) mine.current = start(uses.front());
}

Matrix UnitValues::begin() {
  Action& mine = action();
  const int unit = mine.uses[mine.at];
  if (in_place_) return begin_in_place(mine, unit);
  if (!sharded_) {  // a piece is all of it if values are sharded, but no other rank has a copy
    return memory_.values.sharded ? memory_.owned(memory_.values, unit) : memory_.whole(memory_.values, unit);
  }
  if (mine.at > 0 && mine.uses[mine.at - 1] == unit) return mine.current.values;
  if (!overlaps_) mine.current = start(unit);
  waited_ += context_.time_waited(mine.current.ticket);
  const std::size_t next = mine.following();
  if (overlaps_ && next < mine.uses.size()) mine.next = start(mine.uses[next]);
  if (memory_.has_secondary_shard(unit)) keep_secondary_shard(unit, mine.current.values);
  return mine.current.values;
}

void UnitValues::end() {
  Action& mine = action();
  const int unit = mine.uses[mine.at++];
  if (!sharded_ || (mine.at < mine.uses.size() && mine.uses[mine.at] == unit)) return;
  mine.current.values.reset();
  mine.current = std::move(mine.next);
}

std::size_t UnitValues::Action::following() const {
  std::size_t other = at + 1;
  while (other < uses.size() && uses[other] == uses[at]) ++other;
  return other;
}

UnitValues::Gather UnitValues::start(int unit) {
  Gather gather;
  gather.values = context_.make(Category::parameters, "gathered parameters", 1, memory_.unit(unit).padded);
  const bool again = memory_.has_secondary_shard(unit) && gathered_[static_cast<std::size_t>(unit)];
  gather.ticket = context_.communicator.start_all_gather(
      again ? Group::zero_param : memory_.unit(unit).group,
      again ? memory_.secondary_shard(unit) : memory_.owned(memory_.values, unit), gather.values);
  return gather;
}

void UnitValues::keep_secondary_shard(int unit, const Matrix& values) {
  if (gathered_[static_cast<std::size_t>(unit)]) return;
  context_.operators.copy(memory_.secondary_part(values), memory_.secondary_shard(unit));
  gathered_[static_cast<std::size_t>(unit)] = true;
}

void UnitValues::start_in_place(Action& mine, std::size_t at) {
  while (at < mine.uses.size() && gathered_[static_cast<std::size_t>(mine.uses[at])]) ++at;
  if (at == mine.uses.size()) return;
  const int unit = mine.uses[at];
  gathered_[static_cast<std::size_t>(unit)] = true;
  mine.current.unit = unit;
  mine.current.ticket = context_.communicator.start_all_gather(
      memory_.unit(unit).group, memory_.owned(memory_.values, unit), memory_.whole(memory_.values, unit));
}

Matrix UnitValues::begin_in_place(Action& mine, int unit) {
  if (mine.current.unit == unit) {
    waited_ += context_.time_waited(mine.current.ticket);
    mine.current.unit = -1;
    if (use_gathered_) use_gathered_(unit);
    start_in_place(mine, mine.following());
  }
  return memory_.whole(memory_.values, unit);
}

}  // namespace plumbline::training
