// The name table: every schedule by the name that configurations and the command line use.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/schedule.hpp"
#include "schedules/generators.hpp"
#include "schedules/vocabulary.hpp"

namespace plumbline {

/// Inputs of a schedule besides its name. Inputs that it does not use are ignored, unless noted.
struct ScheduleRequest {
  std::string name;
  int ranks = 1;
  int microbatches = 1;
  /// Model chunks per rank: any for interleaved; 0 = the schedule's own number (1, 2 for V-shapes, 2 for
  /// interleaved). Another number than its own is an error for the rest.
  int chunks = 0;
  int group = 0;  // interleaved: micro-batches per group, 0 = ranks (or all, when there are fewer)
  /// 1f1b and interleaved: the forward and the backward of a steady pair overlap, as dualpipe's always do.
  bool pairs = false;
  /// Vocabulary passes on 1f1b and v-half: none, two_barriers (vocab-1), one_barrier (vocab-2), interlaced.
  VocabPasses vocab = VocabPasses::none;
  VocabTimes vocab_times;
  /// zb-auto: measured times; without, equal ones. memory_limit 0 means that of 1F1B, P activations.
  std::optional<ZeroBubbleCosts> zero_bubble;
  /// bubble-fill: times; without, TF = F = I = W = 1 and B = 2. Room for activations; without, as 1F1B. Limit
  /// for cached teacher outputs; 0 means one per rank.
  std::optional<DistillationTimes> distillation;
  std::optional<DistillationRoom> distillation_room;
  std::int64_t cached_outputs = 0;
};

/// gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-auto, zb-v, v-half, v-min, dualpipe, dualpipev, vocab-1,
/// vocab-2, interlaced, v-half-vocab-1, v-half-vocab-2, nemo-2504, abeja, nemo-13065,
/// bubble-fill.
const std::vector<std::string_view>& schedule_names();

/// Throws InputError: an unknown name with the nearest known one, or the constraint that the sizes break.
Schedule make_schedule(const ScheduleRequest& request);

/// Chunks per rank that the named schedule uses by itself; 0 for an unknown name.
int default_chunks(std::string_view name);

}  // namespace plumbline
