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

struct Entry {
  std::string_view name;
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

constexpr std::array<Entry, 20> kEntries = {{
    {"gpipe", plain<gpipe>},
    {"1f1b", make_one_f_one_b},
    {"interleaved", make_interleaved},
    {"zb-h1", plain<zb_h1>},
    {"zb-h2", plain<zb_h2>},
    {"zb-auto", make_zb_auto},
    {"zb-v", plain<zb_v>},
    {"v-half", plain<v_half>},
    {"v-min", plain<v_min>},
    {"dualpipe", plain<dualpipe>},
    {"dualpipev", plain<dualpipe_v>},
    {"vocab-1", make_vocab<VocabPasses::two_barriers>},
    {"vocab-2", make_vocab<VocabPasses::one_barrier>},
    {"interlaced", make_vocab<VocabPasses::interlaced>},
    {"v-half-vocab-1", make_vocab_v_half<VocabPasses::two_barriers>},
    {"v-half-vocab-2", make_vocab_v_half<VocabPasses::one_barrier>},
    {"nemo-2504", plain<distillation_nemo_2504>},
    {"abeja", plain<distillation_abeja>},
    {"nemo-13065", plain<distillation_nemo_13065>},
    {"bubble-fill", make_bubble_fill},
}};

/// What has vocabulary passes has a name of its own.
std::string with_vocab(const ScheduleRequest& request) {
  if (request.vocab == VocabPasses::none) return request.name;
  if (const ScheduleTraits* traits = find_with_passes(request.name, request.vocab)) {
    return std::string(traits->name);
  }
  throw InputError(
      fmt::format("schedule {}: no vocabulary passes \"{}\" for it; 1f1b takes vocab-1, vocab-2 and "
                  "interlaced, v-half takes vocab-1 and vocab-2",
                  request.name, vocab_parallel_name(request.vocab)));
}

const Entry* find(std::string_view name) {
  const auto entry =
      std::find_if(kEntries.begin(), kEntries.end(), [&](const Entry& e) { return e.name == name; });
  return entry == kEntries.end() ? nullptr : &*entry;
}

}  // namespace

const std::vector<std::string_view>& schedule_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    list.reserve(kEntries.size());
    for (const Entry& entry : kEntries) list.push_back(entry.name);
    return list;
  }();
  return names;
}

int default_chunks(std::string_view name) {
  const ScheduleTraits* traits = find_schedule_traits(name);
  return traits == nullptr ? 0 : traits->chunks();
}

Schedule make_schedule(const ScheduleRequest& request) {
  const std::string name = with_vocab(request);
  const Entry* entry = find(name);
  if (entry == nullptr) {
    throw InputError(fmt::format("unknown schedule \"{}\", did you mean {}?", printable(name),
                                 nearest_name(name, schedule_names())));
  }
  ScheduleRequest filled = request;
  const ScheduleTraits& traits = *find_schedule_traits(name);
  if (filled.chunks == 0) filled.chunks = traits.chunks();
  if (filled.chunks != traits.chunks() && !traits.any_chunks()) {
    throw InputError(
        fmt::format("schedule {}: {} chunks per rank; expected {}", name, filled.chunks, traits.chunks()));
  }
  return entry->make(filled);
}

}  // namespace plumbline
