#include "core/launch_files/torch/titan/torchtitan_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string_view>
#include <vector>

namespace plumbline {
namespace {

constexpr std::int64_t kMostTitanStages = 10'000;

/// A schedule of torch.distributed.pipelining.
struct TitanSchedule {
  std::string_view name;
  const char* schedule;
  std::int64_t stages_per_rank;  // at least
  bool more;                     // or more
};
constexpr TitanSchedule kTitanSchedules[] = {
    {"1F1B", "1f1b", 1, false},
    {"GPipe", "gpipe", 1, false},
    {"Interleaved1F1B", "interleaved", 2, true},
    {"ZBVZeroBubble", "zb-v", 2, false},
    {"DualPipeV", "dualpipev", 2, false},
};

/// Layers of every stage: embedding and output layer stand for `first` and `last` layers.
std::vector<std::int64_t> titan_stages(std::int64_t stages, std::int64_t layers, std::int64_t first,
                                       std::int64_t last) {
  const std::int64_t all = layers + first + last;
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < stages; ++i) {
    std::int64_t size = all / stages + (i < all % stages ? 1 : 0);
    if (i == 0) size -= first;
    if (i + 1 == stages) size -= last;
    sizes.push_back(size);
  }
  return sizes;
}

}  // namespace

void set_torchtitan_layout(LaunchArguments& arguments, std::int64_t layers) {
  const char* const degree = "parallelism.pipeline_parallel_degree";
  const std::int64_t ranks = arguments.integer(degree, 1);
  if (ranks < 1 || ranks > kMostTitanStages)
    arguments.refuse(degree, fmt::format("1 to {}", kMostTitanStages));
  arguments.set("pipeline_model_parallel_size", fmt::format("{}", ranks), degree);
  if (ranks == 1) return;
  const char* const schedule = "parallelism.pipeline_parallel_schedule";
  const std::string name = arguments.text(schedule, "1F1B");
  const auto* const found = std::find_if(std::begin(kTitanSchedules), std::end(kTitanSchedules),
                                         [&](const TitanSchedule& each) { return each.name == name; });
  if (found == std::end(kTitanSchedules))
    arguments.refuse(schedule, "1F1B, GPipe, Interleaved1F1B, ZBVZeroBubble or DualPipeV");
  arguments.set("pipeline_schedule", found->schedule, schedule);
  const char* const per_stage = "parallelism.pipeline_parallel_layers_per_stage";
  const char* const less_first = "parallelism.pipeline_parallel_first_stage_less_layers";
  const char* const less_last = "parallelism.pipeline_parallel_last_stage_less_layers";
  const std::int64_t first = arguments.integer(less_first, 1);
  const std::int64_t last = arguments.integer(less_last, 1);
  std::int64_t each = found->stages_per_rank;
  std::string from = schedule;
  if (arguments.has(per_stage) && arguments.text(per_stage, "") != "None") {
    const std::int64_t size = arguments.integer(per_stage, 0);
    if (size < 1) arguments.refuse(per_stage, "1 or more");
    const std::int64_t stages = (layers + first + last + size - 1) / size;
    each = stages / ranks;
    from = per_stage;
    if (stages % ranks != 0 || each < found->stages_per_rank ||
        (!found->more && each > found->stages_per_rank))
      arguments.refuse(per_stage,
                       fmt::format("{}{} stages on each of {} ranks, not {} stages in all",
                                   found->stages_per_rank, found->more ? " or more" : "", ranks, stages));
  }
  const std::int64_t stages = ranks * each;
  const std::int64_t least = stages > 0 ? (layers + first + last) / stages : 0;
  if (least < 1 || first > least || last > least)
    arguments.refuse(from, fmt::format("stages of at least a layer, and of those that {} and {} leave out",
                                       less_first, less_last));
  if (found->more) arguments.set("virtual_pipeline_chunks", fmt::format("{}", each), from);
  arguments.set("layer_distribution",
                fmt::format("{}", fmt::join(titan_stages(stages, layers, first, last), ",")), from);
}

std::optional<TitanSplit> titan_split(const std::string& schedule, std::int64_t ranks,
                                      const std::vector<int>& stages) {
  constexpr std::int64_t kMostLess = 8;
  const auto* const found =
      std::find_if(std::begin(kTitanSchedules), std::end(kTitanSchedules),
                   [&](const TitanSchedule& each) { return each.schedule == schedule; });
  if (found == std::end(kTitanSchedules)) return std::nullopt;
  const std::vector<std::int64_t> wanted(stages.begin(), stages.end());
  const auto count = static_cast<std::int64_t>(wanted.size());
  const std::int64_t layers = std::accumulate(wanted.begin(), wanted.end(), std::int64_t{0});
  for (std::int64_t first = 0; first <= kMostLess; ++first) {
    for (std::int64_t last = 0; last <= kMostLess; ++last) {
      const std::int64_t all = layers + first + last;
      const std::int64_t least = all / count;
      if (least < 1 || first > least || last > least || titan_stages(count, layers, first, last) != wanted)
        continue;
      TitanSplit split{std::string(found->name), first, last, 0};
      if (count == ranks * found->stages_per_rank) return split;
      split.layers_per_stage = (all + count - 1) / count;
      if ((all + split.layers_per_stage - 1) / split.layers_per_stage == count) return split;
    }
  }
  return std::nullopt;
}

}  // namespace plumbline
