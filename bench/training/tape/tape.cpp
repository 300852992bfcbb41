#include "bench/training/tape/tape.hpp"

#include <algorithm>

namespace plumbline::training {

Slot Tape::slot(SlotMemory memory) {
  const Slot made{static_cast<int>(values_.size()), static_cast<int>(memories_.size())};
  memories_.push_back(std::move(memory));
  values_.push_back({.same_as = made.id});
  return made;
}

Slot Tape::overwritten(Slot slot) {
  const Slot made{static_cast<int>(values_.size()), slot.memory};
  values_.push_back({.fresh = false, .same_as = made.id});
  return made;
}

Slot Tape::view(Slot slot) {
  const Slot made = overwritten(slot);
  values_.back().same_as = value_of(slot);
  values_.back().wanted = wanted(slot);
  return made;
}

void remove_empty(Step& step) {
  for (std::vector<Slot>* slots : {&step.reads, &step.makes})
    slots->erase(std::remove_if(slots->begin(), slots->end(), [](Slot slot) { return !slot; }), slots->end());
}

void Tape::add(Entry entry) {
  for (Step* step : {&entry.forward, &entry.repeat, &entry.without_output}) remove_empty(*step);
  entries_.push_back({std::move(entry), block_, last_product_});
}

std::size_t Tape::postponed() {
  add({});
  return entries_.size() - 1;
}

Slot Tape::placed_gradient(Slot of) const {
  const auto found =
      std::find_if(placed_.begin(), placed_.end(), [of](const auto& each) { return each.first.id == of.id; });
  return found == placed_.end() ? Slot() : found->second;
}

int Tape::repeated_in(const Recorded& each) const {
  int block = each.block;
  for (const Slot made : repeated(each).makes) {
    for (const Recorded& other : entries_) {
      const std::vector<Slot>& reads = other.entry.forward.reads;
      if (std::any_of(reads.begin(), reads.end(), [&](Slot read) { return read.memory == made.memory; }))
        block = std::max(block, other.block);
    }
  }
  return block;
}

bool Tape::recomputes_all() const {
  return !inference_ && context.config.recompute.granularity == Recompute::full;
}

void Tape::begin_half() {
  if (!blocks_are_layers()) block_ = blocks_++;
}

void Tape::end_half() {
  if (!blocks_are_layers()) block_ = -1;
}

void Tape::begin_layer(Step begin_use) {
  if (blocks_are_layers()) block_ = blocks_++;
  layers_.push_back({entries_.size(), 0, std::move(begin_use), {}});
}

void Tape::end_layer(Step end_use, Entry mark) {
  block_ = -1;
  last_product_ = false;
  mark.between = true;
  add(std::move(mark));
  layers_.back().end = entries_.size();
  layers_.back().end_use = std::move(end_use);
}

}  // namespace plumbline::training
