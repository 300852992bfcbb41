#include "schedules/make_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

using Maker = Schedule (*)(const ScheduleRequest&);

struct Entry {
  std::string_view name;
  int chunks;
  Maker make;
};

Schedule make_interleaved(const ScheduleRequest& r) {
  const int group = r.group > 0 ? r.group : r.ranks;
  return interleaved(r.ranks, r.microbatches, r.chunks, group);
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
    {"gpipe", 1, plain<gpipe>},
    {"1f1b", 1, plain<one_f_one_b>},
    {"interleaved", 2, make_interleaved},
    {"zb-h1", 1, plain<zb_h1>},
    {"zb-h2", 1, plain<zb_h2>},
    {"zb-auto", 1, make_zb_auto},
    {"zb-v", 2, plain<zb_v>},
    {"v-half", 2, plain<v_half>},
    {"v-min", 2, plain<v_min>},
    {"dualpipe", 2, plain<dualpipe>},
    {"dualpipev", 2, plain<dualpipe_v>},
    {"vocab-1", 1, make_vocab<VocabPasses::two_barriers>},
    {"vocab-2", 1, make_vocab<VocabPasses::one_barrier>},
    {"interlaced", 1, make_vocab<VocabPasses::interlaced>},
    {"v-half-vocab-1", 2, make_vocab_v_half<VocabPasses::two_barriers>},
    {"v-half-vocab-2", 2, make_vocab_v_half<VocabPasses::one_barrier>},
    {"nemo-2504", 1, plain<distillation_nemo_2504>},
    {"abeja", 1, plain<distillation_abeja>},
    {"nemo-13065", 1, plain<distillation_nemo_13065>},
    {"bubble-fill", 1, make_bubble_fill},
}};

/// 1f1b and v-half have names of their own with vocabulary passes.
std::string with_vocab(const ScheduleRequest& request) {
  if (request.vocab == VocabPasses::none) return request.name;
  const std::string passes(vocab_parallel_name(request.vocab));
  if (request.name == "1f1b") return passes;
  if (request.name == "v-half" && request.vocab != VocabPasses::interlaced) return "v-half-" + passes;
  throw InputError(
      fmt::format("schedule {}: no vocabulary passes \"{}\" for it; 1f1b takes vocab-1, vocab-2 and "
                  "interlaced, v-half takes vocab-1 and vocab-2",
                  request.name, passes));
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
  const Entry* entry = find(name);
  return entry == nullptr ? 0 : entry->chunks;
}

Schedule make_schedule(const ScheduleRequest& request) {
  const std::string name = with_vocab(request);
  const Entry* entry = find(name);
  if (entry == nullptr) {
    throw InputError(fmt::format("unknown schedule \"{}\", did you mean {}?", printable(name),
                                 nearest_name(name, schedule_names())));
  }
  ScheduleRequest filled = request;
  if (filled.chunks == 0) filled.chunks = entry->chunks;
  if (filled.chunks != entry->chunks && entry->name != "interleaved") {
    throw InputError(
        fmt::format("schedule {}: {} chunks per rank; expected {}", name, filled.chunks, entry->chunks));
  }
  return entry->make(filled);
}

}  // namespace plumbline
