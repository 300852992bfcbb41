#include "schedules/make_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/schedule/schedule_traits.hpp"

namespace plumbline {
namespace {

using Maker = Schedule (*)(const ScheduleRequest&);

struct ScheduleRow {
  ScheduleTraits traits;
  Maker make;
};

Schedule make_interleaved(const ScheduleRequest& r) {
  const int group = r.group > 0 ? r.group : r.ranks;
  return interleaved(r.ranks, r.microbatches, r.chunks, group, r.pairs);
}

Schedule make_one_f_one_b(const ScheduleRequest& r) {
  return r.pairs ? one_f_one_b_pairs(r.ranks, r.microbatches) : one_f_one_b(r.ranks, r.microbatches);
}

Schedule make_zb_auto(const ScheduleRequest& r) {
  ZeroBubbleCosts costs;
  if (r.zero_bubble) {
    costs = *r.zero_bubble;
  } else {
    const auto ranks = static_cast<std::size_t>(std::max(r.ranks, 0));
    costs.forward.assign(ranks, {1});
    costs.backward_input.assign(ranks, {1});
    costs.backward_weight.assign(ranks, {1});
  }
  if (costs.memory_limit == 0) costs.memory_limit = r.ranks;
  return zb_auto(r.ranks, r.microbatches, costs);
}

template <VocabPasses kPasses>
Schedule make_vocab(const ScheduleRequest& r) {
  return vocab_one_f_one_b(r.ranks, r.microbatches, kPasses, true, r.vocab_times);
}
template <VocabPasses kPasses>
Schedule make_vocab_v_half(const ScheduleRequest& r) {
  return vocab_v_half(r.ranks, r.microbatches, kPasses, true, r.vocab_times);
}
Schedule make_bubble_fill(const ScheduleRequest& r) {
  const int ranks = std::max(r.ranks, 1);
  const std::int64_t cached = r.cached_outputs > 0 ? r.cached_outputs : ranks;
  const std::vector<Seconds> ones(static_cast<std::size_t>(ranks), Seconds{1});
  const std::vector<Seconds> twos(static_cast<std::size_t>(ranks), Seconds{2});
  return distillation_bubble_fill(r.ranks, r.microbatches, cached,
                                  r.distillation.value_or(DistillationTimes{ones, ones, twos, ones, ones}),
                                  r.distillation_room.value_or(room_of_one_f_one_b(ranks)));
}
template <Schedule (*kGenerator)(int, int)>
Schedule plain(const ScheduleRequest& r) {
  return kGenerator(r.ranks, r.microbatches);
}

/// Every schedule: its traits and its maker.
constexpr ScheduleRow kSchedules[] = {
    {{.name = "gpipe"}, plain<gpipe>},
    {{.name = "1f1b", .repeats = true, .pairs = true, .chunked = "interleaved"}, make_one_f_one_b},
    {{.name = "interleaved",
      .placement = StagePlacement::round_robin,
      .whole_groups = true,
      .repeats = true,
      .pairs = true},
     make_interleaved},
    {{.name = "zb-h1", .split_backward = true, .repeats = true}, plain<zb_h1>},
    {{.name = "zb-h2", .split_backward = true, .repeats = true}, plain<zb_h2>},
    {{.name = "zb-auto", .split_backward = true, .order = OrderFrom::zero_bubble_times}, make_zb_auto},
    {{.name = "zb-v", .placement = StagePlacement::v_shape, .split_backward = true, .repeats = true},
     plain<zb_v>},
    {{.name = "v-half", .placement = StagePlacement::v_shape, .split_backward = true, .repeats = true},
     plain<v_half>},
    {{.name = "v-min", .placement = StagePlacement::v_shape, .split_backward = true, .repeats = true},
     plain<v_min>},
    {{.name = "dualpipe",
      .placement = StagePlacement::two_copies,
      .split_backward = true,
      .repeats = true,
      .pairs = true},
     plain<dualpipe>},
    {{.name = "dualpipev",
      .placement = StagePlacement::v_shape,
      .split_backward = true,
      .repeats = true,
      .pairs = true},
     plain<dualpipe_v>},
    {{.name = "vocab-1", .vocab = VocabPasses::two_barriers, .base = "1f1b"},
     make_vocab<VocabPasses::two_barriers>},
    {{.name = "vocab-2", .vocab = VocabPasses::one_barrier, .base = "1f1b"},
     make_vocab<VocabPasses::one_barrier>},
    {{.name = "interlaced", .vocab = VocabPasses::interlaced, .base = "1f1b"},
     make_vocab<VocabPasses::interlaced>},
    {{.name = "v-half-vocab-1",
      .placement = StagePlacement::v_shape,
      .split_backward = true,
      .vocab = VocabPasses::two_barriers,
      .base = "v-half"},
     make_vocab_v_half<VocabPasses::two_barriers>},
    {{.name = "v-half-vocab-2",
      .placement = StagePlacement::v_shape,
      .split_backward = true,
      .vocab = VocabPasses::one_barrier,
      .base = "v-half"},
     make_vocab_v_half<VocabPasses::one_barrier>},
    {{.name = "nemo-2504", .teacher = true}, plain<distillation_nemo_2504>},
    {{.name = "abeja", .teacher = true}, plain<distillation_abeja>},
    {{.name = "nemo-13065", .teacher = true}, plain<distillation_nemo_13065>},
    {{.name = "bubble-fill", .split_backward = true, .teacher = true, .order = OrderFrom::distillation_times},
     make_bubble_fill},
};

/// The traits alone, as core takes them.
constexpr auto kTraitsOfAll = [] {
  std::array<ScheduleTraits, std::size(kSchedules)> traits;
  std::transform(std::begin(kSchedules), std::end(kSchedules), traits.begin(),
                 [](const ScheduleRow& row) { return row.traits; });
  return traits;
}();

/// Schedules with vocabulary passes have a name of their own.
std::string with_vocab(const ScheduleRequest& request) {
  if (request.vocab == VocabPasses::none) return request.name;
  if (const ScheduleTraits* traits = find_with_passes(request.name, request.vocab)) {
    return std::string(traits->name);
  }
  throw InputError(
      fmt::format("schedule {}: found vocabulary passes \"{}\", expected those of the schedule; 1f1b takes "
                  "vocab-1, vocab-2 and interlaced, v-half takes vocab-1 and vocab-2",
                  request.name, vocab_parallel_name(request.vocab)));
}

const ScheduleRow* find_schedule(std::string_view name) {
  const auto* const row = std::find_if(std::begin(kSchedules), std::end(kSchedules),
                                       [&](const ScheduleRow& r) { return r.traits.name == name; });
  return row == std::end(kSchedules) ? nullptr : row;
}

}  // namespace

// Runs before main() in every program that links plumbline::schedules (CMakeLists.txt tells the linker).
extern "C" {
extern const bool plumbline_schedules_handed_over;
const bool plumbline_schedules_handed_over = (hand_over_schedules(kTraitsOfAll), true);
}

const std::vector<std::string_view>& schedule_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (const ScheduleRow& row : kSchedules) list.push_back(row.traits.name);
    return list;
  }();
  return names;
}

int default_chunks(std::string_view name) {
  const ScheduleRow* const row = find_schedule(name);
  return row == nullptr ? 0 : row->traits.chunks();
}

Schedule make_schedule(const ScheduleRequest& request) {
  const std::string name = with_vocab(request);
  const ScheduleRow* const row = find_schedule(name);
  if (row == nullptr) {
    throw InputError(fmt::format("schedule: found the unknown schedule \"{}\", expected one such as {}",
                                 printable(name), nearest_name(name, schedule_names())));
  }
  ScheduleRequest filled = request;
  const ScheduleTraits& traits = row->traits;
  if (filled.chunks == 0) filled.chunks = traits.chunks();
  if (filled.chunks != traits.chunks() && !traits.any_chunks()) {
    throw InputError(
        fmt::format("schedule {}: {} chunks per rank; expected {}", name, filled.chunks, traits.chunks()));
  }
  return row->make(filled);
}

}  // namespace plumbline
