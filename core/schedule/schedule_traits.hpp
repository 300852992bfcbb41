// What each built-in schedule can do, as plain data: asked by those who choose a schedule without making it.
// The generators are in schedules/; a test holds every schedule they make against its row.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/schedule/vocab_passes.hpp"

namespace plumbline {

/// Which stages a rank holds.
enum class StagePlacement : std::uint8_t {
  one,          // one of the model
  round_robin,  // several of the model, stage s on rank s mod ranks; any number of them
  v_shape,      // two of the model, from the first rank to the last and back
  two_copies,   // one of each of two copies of the model, whose micro-batches go in opposite directions
};

/// What the order of actions follows besides the numbers of ranks and micro-batches.
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

  /// Entries of a rank in rank_of_stage, where the number is not given.
  constexpr int chunks() const { return placement == StagePlacement::one ? 1 : 2; }
  /// Parts into which a rank's share of one copy of the model is split, where the number is not given.
  constexpr int parts() const { return bidirectional() ? 1 : chunks(); }
  constexpr bool any_chunks() const { return placement == StagePlacement::round_robin; }
  constexpr bool v_shaped() const { return placement == StagePlacement::v_shape; }
  constexpr bool bidirectional() const { return placement == StagePlacement::two_copies; }
};

inline constexpr std::array<ScheduleTraits, 20> kScheduleTraits = {{
    {.name = "gpipe"},
    {.name = "1f1b", .repeats = true, .pairs = true, .chunked = "interleaved"},
    {.name = "interleaved",
     .placement = StagePlacement::round_robin,
     .whole_groups = true,
     .repeats = true,
     .pairs = true},
    {.name = "zb-h1", .split_backward = true, .repeats = true},
    {.name = "zb-h2", .split_backward = true, .repeats = true},
    {.name = "zb-auto", .split_backward = true, .order = OrderFrom::zero_bubble_times},
    {.name = "zb-v", .placement = StagePlacement::v_shape, .split_backward = true, .repeats = true},
    {.name = "v-half", .placement = StagePlacement::v_shape, .split_backward = true, .repeats = true},
    {.name = "v-min", .placement = StagePlacement::v_shape, .split_backward = true, .repeats = true},
    {.name = "dualpipe",
     .placement = StagePlacement::two_copies,
     .split_backward = true,
     .repeats = true,
     .pairs = true},
    {.name = "dualpipev",
     .placement = StagePlacement::v_shape,
     .split_backward = true,
     .repeats = true,
     .pairs = true},
    {.name = "vocab-1", .vocab = VocabPasses::two_barriers, .base = "1f1b"},
    {.name = "vocab-2", .vocab = VocabPasses::one_barrier, .base = "1f1b"},
    {.name = "interlaced", .vocab = VocabPasses::interlaced, .base = "1f1b"},
    {.name = "v-half-vocab-1",
     .placement = StagePlacement::v_shape,
     .split_backward = true,
     .vocab = VocabPasses::two_barriers,
     .base = "v-half"},
    {.name = "v-half-vocab-2",
     .placement = StagePlacement::v_shape,
     .split_backward = true,
     .vocab = VocabPasses::one_barrier,
     .base = "v-half"},
    {.name = "nemo-2504", .teacher = true},
    {.name = "abeja", .teacher = true},
    {.name = "nemo-13065", .teacher = true},
    {.name = "bubble-fill", .split_backward = true, .teacher = true, .order = OrderFrom::distillation_times},
}};

/// The row of a name, or null: a file, or no schedule that is built in.
constexpr const ScheduleTraits* find_schedule_traits(std::string_view name) {
  for (const ScheduleTraits& traits : kScheduleTraits) {
    if (traits.name == name) return &traits;
  }
  return nullptr;
}

/// The row of a name; for other names one of a schedule with nothing special.
constexpr ScheduleTraits schedule_traits(std::string_view name) {
  const ScheduleTraits* traits = find_schedule_traits(name);
  return traits != nullptr ? *traits : ScheduleTraits{.name = name};
}

/// The schedule that adds vocabulary passes to `base`, or null where there is none; `base` itself for none.
constexpr const ScheduleTraits* find_with_passes(std::string_view base, VocabPasses vocab) {
  if (vocab == VocabPasses::none) return find_schedule_traits(base);
  for (const ScheduleTraits& traits : kScheduleTraits) {
    if (traits.base == base && traits.vocab == vocab) return &traits;
  }
  return nullptr;
}

}  // namespace plumbline
