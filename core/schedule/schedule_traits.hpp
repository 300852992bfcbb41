// The traits of a schedule as plain data, for callers that choose one without making it. The table stands
// next to the generators, in schedules/make_schedule.cpp; a test compares every schedule with its row.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/schedule/vocab_passes.hpp"

namespace plumbline {

/// Stages of a rank.
enum class StagePlacement : std::uint8_t {
  one,          // one of the model
  round_robin,  // several of the model, stage s on rank s mod ranks; any number of them
  v_shape,      // two of the model, from the first rank to the last and back
  two_copies,   // one of each of two copies of the model, whose micro-batches go in opposite directions
};

/// Inputs that decide the order of actions besides the numbers of ranks and micro-batches.
enum class OrderFrom : std::uint8_t { sizes, zero_bubble_times, distillation_times };

struct ScheduleTraits {
  std::string_view name;
  StagePlacement placement = StagePlacement::one;
  bool split_backward = false;  // I and W; without, B only
  bool teacher = false;         // runs a teacher's forwards
  /// Meant for numbers of micro-batches that the ranks divide; others leave ranks idle.
  bool whole_groups = false;
  OrderFrom order = OrderFrom::sizes;
  /// Once the pipeline is full every rank does the same again for the next micro-batches, until it empties.
  bool repeats = false;
  /// Has overlapped pairs of a forward and a backward, always or where they are asked for.
  bool pairs = false;
  VocabPasses vocab = VocabPasses::none;  // the vocabulary passes it has
  std::string_view base{};                // with such passes: the schedule that they are added to
  std::string_view chunked{};             // the schedule for several stages of the model on a rank

  /// True if a search tries it: it has an order of its own, which only the sizes decide.
  constexpr bool searched() const { return base.empty() && !teacher && order == OrderFrom::sizes; }
  /// Entries of a rank in rank_of_stage, where the number is not given.
  constexpr int chunks() const { return placement == StagePlacement::one ? 1 : 2; }
  /// Parts into which a rank's share of one copy of the model is split, where the number is not given.
  constexpr int parts() const { return bidirectional() ? 1 : chunks(); }
  constexpr bool any_chunks() const { return placement == StagePlacement::round_robin; }
  constexpr bool v_shaped() const { return placement == StagePlacement::v_shape; }
  constexpr bool bidirectional() const { return placement == StagePlacement::two_copies; }
};

/// The built-in schedules. schedules/make_schedule.cpp hands its table over before main(); empty in programs
/// without it.
std::span<const ScheduleTraits> known_schedules();
/// `schedules` must live as long as the program.
void hand_over_schedules(std::span<const ScheduleTraits> schedules);

/// The row of a name, or null: a file, or no schedule that is built in.
const ScheduleTraits* find_schedule_traits(std::string_view name);

/// The row of a name; for other names one of a schedule with nothing special.
ScheduleTraits schedule_traits(std::string_view name);

/// The schedule that adds vocabulary passes to `base`, or null if there is none; `base` itself for none.
const ScheduleTraits* find_with_passes(std::string_view base, VocabPasses vocab);

}  // namespace plumbline
