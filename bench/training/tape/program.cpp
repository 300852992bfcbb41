#include "bench/training/tape/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/training/tape/pass.hpp"
#include "bench/training/tape/reverse.hpp"
#include "core/base/error.hpp"

namespace plumbline::training {
namespace {

using Steps = std::vector<PlannedStep>;

/// visit(position, slot, true if its memory begins there) for everything that a plan touches.
template <class Visit>
void for_each_access(const Tape& tape, const Steps& plan, const Visit& visit) {
  for (std::size_t i = 0; i < plan.size(); ++i) {
    for (const Slot slot : plan[i].step.reads) visit(i, slot, false);
    for (const Slot slot : plan[i].step.makes) visit(i, slot, tape.fresh(slot));
  }
}

/// Memory that a plan reads before it makes it.
std::vector<bool> found_by(const Tape& tape, const Steps& plan) {
  std::vector<bool> seen(tape.memories());
  std::vector<bool> found(tape.memories());
  for_each_access(tape, plan, [&](std::size_t, Slot slot, bool begins) {
    const auto memory = static_cast<std::size_t>(slot.memory);
    if (!seen[memory]) found[memory] = !begins;
    seen[memory] = true;
  });
  return found;
}

/// Memory that a plan makes.
std::vector<bool> made_by(const Tape& tape, const Steps& plan) {
  std::vector<bool> made(tape.memories());
  for_each_access(tape, plan, [&](std::size_t, Slot slot, bool begins) {
    if (begins) made[static_cast<std::size_t>(slot.memory)] = true;
  });
  return made;
}

Steps joined(Steps first, const Steps& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// The block at whose end a recomputed tensor is freed, for each memory; -1 for others.
std::vector<int> blocks_of_repeated(const Tape& tape) {
  std::vector<int> blocks(tape.memories(), -1);
  for (const Tape::Recorded& each : tape.entries()) {
    if (!each.entry.repeats) continue;
    for (const Slot slot : Tape::repeated(each).makes)
      blocks[static_cast<std::size_t>(slot.memory)] = tape.repeated_in(each);
  }
  return blocks;
}

/// The rule of lifetimes: memory is freed after its last access unless it is in `kept`; memory of
/// `at_block_end` at the end of the block of that access, or of the repeated entry that made it.
Program with_releases(const Tape& tape, const Steps& plan, const std::vector<bool>& kept,
                      const std::vector<bool>& at_block_end) {
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  Program made;
  std::vector<std::size_t> block_end(static_cast<std::size_t>(tape.blocks()));
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const PlannedStep& planned = plan[i];
    made.instructions.push_back({planned.step.run, planned.repeats, {}});
    made.units.insert(made.units.end(), planned.step.units.begin(), planned.step.units.end());
    made.expert_units.insert(made.expert_units.end(), planned.step.expert_units.begin(),
                             planned.step.expert_units.end());
    if (planned.block >= 0) block_end[static_cast<std::size_t>(planned.block)] = i;
  }
  const std::vector<int> repeated = blocks_of_repeated(tape);
  std::vector<std::size_t> last(tape.memories(), kNone);
  for_each_access(tape, plan,
                  [&](std::size_t i, Slot slot, bool) { last[static_cast<std::size_t>(slot.memory)] = i; });
  for (std::size_t memory = 0; memory < last.size(); ++memory) {
    std::size_t at = last[memory];
    if (at == kNone || kept[memory]) continue;
    const int block = repeated[memory] >= 0 ? repeated[memory] : plan[at].block;
    if (at_block_end[memory] && block >= 0) at = block_end[static_cast<std::size_t>(block)];
    made.instructions[at].released.push_back(static_cast<int>(memory));
  }
  return made;
}

/// Every value is read from memory that still has it, unless a step only keeps memory.
void check_values(const Tape& tape, const Steps& all) {
  std::vector<int> held(tape.memories(), -1);  // by memory: its value, once known
  for (const PlannedStep& planned : all) {
    for (const Slot slot : planned.step.reads) {
      int& here = held[static_cast<std::size_t>(slot.memory)];
      if (here >= 0 && here != tape.value_of(slot) && planned.step.run)
        throw Error(
            fmt::format("tape: found a later value in the memory of \"{}\", expected the one that is read",
                        tape.memory(slot).holder));
    }
    for (const Slot slot : planned.step.makes)
      held[static_cast<std::size_t>(slot.memory)] = tape.value_of(slot);
  }
}

Steps forward_plan(const Tape& tape) {
  Steps plan;
  for (const Tape::Recorded& each : tape.entries())
    if (each.entry.forward.run) plan.push_back({each.entry.forward, Repeats::nothing, each.block});
  return plan;
}

std::vector<bool> either(const std::vector<bool>& a, const std::vector<bool>& b) {
  std::vector<bool> made(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) made[i] = a[i] || b[i];
  return made;
}

/// Gradients that another action reads are activations.
void settle_categories(Tape& tape, const Steps& later) {
  for_each_access(tape, later, [&](std::size_t, Slot slot, bool) {
    SlotMemory& memory = tape.memory_of(slot.memory);
    if (memory.by_plan) memory.category = Category::activations;
  });
}

}  // namespace

void Program::run(Pass& pass) const {
  for (const Instruction& each : instructions) {
    pass.repeats = each.repeats;
    if (each.run) each.run(pass);
    for (const int memory : each.released) pass.release(memory);
  }
}

Programs make_programs(Tape& tape, bool defers_output) {
  Reverse together(tape, true, defers_output);
  together.run();
  Reverse apart(tape, false, defers_output);
  if (!defers_output) apart.run();
  settle_categories(tape, apart.later);
  const Steps forward = forward_plan(tape);
  const Steps backward = joined(together.steps, together.later);
  const Steps in_two = joined(apart.steps, apart.later);
  check_values(tape, joined(forward, backward));
  check_values(tape, joined(forward, in_two));

  const std::vector<bool> none(tape.memories());
  Programs made;
  made.kept = either(found_by(tape, backward), found_by(tape, in_two));
  made.forward = with_releases(tape, forward, made.kept, made_by(tape, backward));
  made.backward = with_releases(tape, together.steps, found_by(tape, together.later), none);
  if (defers_output) {
    made.input = made.backward;
    made.weight = with_releases(tape, together.later, none, none);
  } else {
    made.input = with_releases(tape, apart.steps, found_by(tape, apart.later), none);
    made.weight = with_releases(tape, apart.later, none, none);
  }
  return made;
}

Program make_forward(Tape& tape, Slot result) {
  const Steps forward = forward_plan(tape);
  std::vector<bool> kept(tape.memories());
  kept[static_cast<std::size_t>(result.memory)] = true;
  check_values(tape, forward);
  return with_releases(tape, forward, kept, std::vector<bool>(tape.memories(), true));
}

}  // namespace plumbline::training
