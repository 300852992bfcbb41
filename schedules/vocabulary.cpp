#include "schedules/vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.hpp"
#include "core/schedule/dependency_walk.hpp"
#include "schedules/generators.hpp"
#include "schedules/layouts.hpp"
#include "schedules/vocab_insertion.hpp"

namespace plumbline {
namespace {

int backwards_later(VocabPasses passes) {
  return passes == VocabPasses::one_barrier ? 1 : 2;
}

/// 1F1B in which all ranks meet once per micro-batch for S and T. Between two meetings every rank does one F
/// and one B; ranks at an even distance d from the last do B first. An activation then passes two ranks per
/// round, a gradient one, and rank r holds 1.5 (P-1-r) + 1 activations.
Schedule interlaced_one_f_one_b(int ranks, int microbatches) {
  Schedule schedule = one_stage_per_rank("interlaced", ranks, microbatches);
  schedule.vocab = VocabPasses::interlaced;
  for (int rank = 0; rank < ranks; ++rank) {
    const int distance = ranks - 1 - rank;
    ActionList list(schedule, rank, 4 * static_cast<std::size_t>(microbatches));
    const auto add = [&](ActionType type, int m) {
      if (m >= 0 && m < microbatches) list.add(type, rank, m);
    };
    for (int round = -1 - ranks / 2; round < microbatches + ranks; ++round) {
      add(ActionType::vocab_forward, round);
      add(ActionType::vocab_backward, round);
      if (distance % 2 == 0) add(ActionType::backward, round - distance);
      add(ActionType::forward, round + 1 + distance / 2);
      if (distance % 2 != 0) add(ActionType::backward, round - distance);
    }
  }
  return schedule;
}

}  // namespace

Schedule insert_vocab_passes(const Schedule& schedule, VocabPasses passes, bool input_layer,
                             VocabTimes times) {
  check_ranges(schedule);
  const bool has_passes = schedule.vocab == VocabPasses::interlaced;
  if (schedule.routes != 1 || has_transfers(schedule) || passes == VocabPasses::none ||
      (passes == VocabPasses::interlaced) != has_passes) {
    throw InputError(fmt::format(
        "schedule {}: vocabulary passes need a schedule of one route without transfers, and a kind of passes",
        schedule.name));
  }
  InsertedPasses best = insert_passes(schedule, passes, input_layer, times, {});
  const bool split = std::any_of(schedule.actions.begin(), schedule.actions.end(), [](const auto& actions) {
    return std::any_of(actions.begin(), actions.end(),
                       [](const Action& action) { return action.type == ActionType::backward_weight; });
  });
  for (const double patience : {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}) {
    if (!split) break;
    InsertedPasses moved = insert_passes(schedule, passes, input_layer, times, {true, patience});
    if (moved.length < best.length * (1 - 1e-9)) best = std::move(moved);
  }
  return std::move(best.schedule);
}

Schedule vocab_one_f_one_b(int ranks, int microbatches, VocabPasses passes, bool input_layer,
                           VocabTimes times) {
  if (passes == VocabPasses::interlaced) {
    const Schedule schedule = interlaced_one_f_one_b(ranks, microbatches);
    return input_layer ? insert_vocab_passes(schedule, passes, input_layer, times) : schedule;
  }
  Schedule schedule = one_f_one_b_ahead(ranks, microbatches, backwards_later(passes));
  schedule = insert_vocab_passes(schedule, passes, input_layer, times);
  schedule.name = passes == VocabPasses::two_barriers ? "vocab-1" : "vocab-2";
  return schedule;
}

Schedule vocab_v_half(int ranks, int microbatches, VocabPasses passes, bool input_layer, VocabTimes times) {
  if (passes == VocabPasses::interlaced) {
    throw InputError(
        "schedule v-half: found interlaced vocabulary passes, expected vocab-1 or vocab-2; interlaced needs "
        "1f1b");
  }
  Schedule schedule = v_half_ahead(ranks, microbatches, backwards_later(passes));
  schedule = insert_vocab_passes(schedule, passes, input_layer, times);
  schedule.name = passes == VocabPasses::two_barriers ? "v-half-vocab-1" : "v-half-vocab-2";
  return schedule;
}

}  // namespace plumbline
