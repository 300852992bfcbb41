#include "bench/training/tape/reverse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/base/error.hpp"

namespace plumbline::training {

Reverse::Reverse(Tape& tape, bool joint, bool defers_output)
    : tape_(tape), joint_(joint), defers_output_(defers_output) {
  for (const auto& [of, gradient] : tape.given_gradients()) pass_on(of, gradient);
}

void Reverse::run() {
  find_repeats();
  std::vector<const Tape::Group*> group_ending_at(tape_.entries().size() + 1);
  if (tape_.recomputes_all()) {
    for (const Tape::Group& group : tape_.groups())
      group_ending_at[tape_.layers()[group.end - 1].end] = &group;
  }
  // Plans add slots, no entries.
  int block = -1;
  for (std::size_t i = tape_.entries().size(); i-- > 0;) {
    if (group_ending_at[i + 1] != nullptr) repeat_group(*group_ending_at[i + 1]);
    const Tape::Recorded& entry = tape_.entries()[i];
    if (entry.block >= 0 && entry.block != block) {
      for (const Step* step : repeats_[static_cast<std::size_t>(entry.block)]) repeat(*step, Repeats::module);
    }
    block = entry.block;
    if (entry.entry.backward) entry.entry.backward(*this);
  }
  if (joint_ && held_) step({.reads = {held_}});
}

void Reverse::find_repeats() {
  repeats_.assign(static_cast<std::size_t>(tape_.blocks()), {});
  for (const Tape::Recorded& each : tape_.entries()) {
    if (each.entry.repeats)
      repeats_[static_cast<std::size_t>(tape_.repeated_in(each))].push_back(&Tape::repeated(each));
  }
}

void Reverse::repeat_group(const Tape::Group& group) {
  for (std::size_t i = group.begin; i < group.end; ++i) repeat_layer(tape_.layers()[i], i + 1 == group.end);
}

/// `last`: its output is not needed.
void Reverse::repeat_layer(const Tape::Layer& layer, bool last) {
  std::set<int> not_made;  // memory
  for (std::size_t i = layer.begin; i < layer.end; ++i) {
    const Tape::Recorded& each = tape_.entries()[i];
    for (const Slot slot : each.entry.forward.makes)
      if (last && each.last_product) not_made.insert(slot.memory);
  }
  repeat(layer.begin_use, Repeats::layer);
  for (std::size_t i = layer.begin; i < layer.end; ++i) {
    const Tape::Recorded& each = tape_.entries()[i];
    if (each.entry.between || !each.entry.forward.run) continue;
    if (!last || !each.last_product) {
      repeat(each.entry.forward, Repeats::layer);
      continue;
    }
    Step reads;  // what they read lives as long as it would
    for (const Slot slot : each.entry.forward.reads)
      if (not_made.count(slot.memory) == 0) reads.reads.push_back(slot);
    repeat(reads, Repeats::layer);
    if (each.entry.without_output.run) repeat(each.entry.without_output, Repeats::layer);
  }
  repeat(layer.end_use, Repeats::layer);
}

Slot Reverse::make(Slot of, const char* holder) {
  const Slot made = tape_.slot({holder, Category::workspace, tape_.context.config.numerics.precision, true});
  gradients_[of.id].push_back({made, 1, false});
  return made;
}

Slot Reverse::make_fixed(Slot of, const char* holder, Category category) {
  const Slot made = tape_.slot({holder, category, tape_.context.config.numerics.precision});
  gradients_[of.id].push_back({made, 1, false});
  return made;
}

Slot Reverse::make_over(Slot dy, Slot of, const char* holder) {
  if (handed_down(dy) || read_later(dy)) return make(of, holder);
  const Slot made = overwrite(dy);
  gradients_[of.id].push_back({made, 1, false});
  return made;
}

bool Reverse::handed_down(Slot gradient) const {
  return std::any_of(gradients_.begin(), gradients_.end(), [&](const auto& of) {
    return std::any_of(of.second.begin(), of.second.end(),
                       [&](const Part& part) { return part.slot.id == gradient.id && part.handed_down; });
  });
}

std::vector<Reverse::Part> Reverse::parts(Slot of) const {
  const auto found = gradients_.find(of.id);
  return found == gradients_.end() ? std::vector<Part>() : found->second;
}

Slot Reverse::gradient(Slot of) const {
  const std::vector<Part> all = parts(of);
  if (all.empty()) return {};
  if (all.size() == 1) return all.front().slot;
  throw Error(fmt::format("tape: found {} parts of a gradient of \"{}\", expected one", all.size(),
                          tape_.memory(of).holder));
}

void Reverse::product(Slot dy, Slot x, Slot dx, Gradients gradients) {
  if (joint_) return step({.reads = {dy, x}, .makes = {dx}, .run = std::move(gradients.both)});
  step({.reads = {dy}, .makes = {dx}, .run = std::move(gradients.input)});
  weights({.reads = {dy, x}, .run = std::move(gradients.weight)});
}

bool Reverse::read_later(Slot gradient) const {
  return std::any_of(later.begin(), later.end(), [&](const PlannedStep& planned) {
    return std::any_of(planned.step.reads.begin(), planned.step.reads.end(),
                       [&](Slot read) { return read.memory == gradient.memory; });
  });
}

Reverse::Sum Reverse::accumulate(Slot of, const char* holder, Category apart, Slot instead) {
  Sum sum{gradient(of), {}};
  const Slot placed = tape_.placed_gradient(of);
  const Slot taken = sum.before ? sum.before : instead;
  const bool own = sum.before && !parts(of).front().handed_down;
  if (placed && !(sum.before && sum.before.memory == placed.memory)) {
    sum.after = placed;
    hold(sum.before);
  } else if (taken && (joint_ || own) && !read_later(taken)) {
    sum.after = overwrite(taken);
    sum.in_place = true;
  } else if (joint_) {
    sum.after = tape_.slot({holder, Category::workspace, tape_.context.config.numerics.precision});
  } else {
    sum.after = tape_.slot({holder, apart, tape_.context.config.numerics.precision});
  }
  gradients_[of.id] = {{sum.after, 1, false}};
  return sum;
}

}  // namespace plumbline::training
