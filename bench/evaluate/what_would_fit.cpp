#include "bench/evaluate/what_would_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/evaluate/plan.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

/// The last few steps: most changes of a configuration keep its step.
class Steps {
 public:
  const RepeatedSchedule& of(const RunConfig& config) {
    const Key key{config.parallel.pipeline, config.microbatches(), config.parallel.copies() > 1};
    const auto known =
        std::find_if(steps_.begin(), steps_.end(), [&](const auto& s) { return s.first == key; });
    // With a teacher or vocabulary passes the order follows from more than these.
    const bool by_sizes = !config.distillation.teacher && !config.parallel.splits_vocabulary();
    if (known != steps_.end() && by_sizes) return known->second;
    if (steps_.size() == kMost) steps_.pop_front();
    return steps_.emplace_back(key, step_for(config)).second;
  }

 private:
  static constexpr std::size_t kMost = 4;
  using Key = std::tuple<int, int, bool>;  // pipeline ranks, micro-batches, true with replicas
  std::deque<std::pair<Key, RepeatedSchedule>> steps_;
};

/// Largest pipeline ranks × micro-batches, whose step is made in a quarter of a second. Advice may take as
/// long as a prediction, not many times as long.
constexpr std::int64_t kMostCells = 1 << 19;

/// The verdict on a configuration, or nothing if it cannot be run or is too large to try.
std::optional<Fit> verdict_on(const RunConfig& config, const HardwareProfile& hardware, Steps& steps) {
  if (why_invalid(config) || why_unpredictable(config)) return std::nullopt;
  if (cells_of_step(config) > kMostCells) return std::nullopt;
  try {
    const RepeatedSchedule& step = steps.of(config);
    return fit_of(config, step.once, hardware, predict_memory(config, step));
  } catch (const InputError&) {
    return std::nullopt;  // a schedule that does not allow these sizes
  }
}

struct Change {
  std::string key;
  std::string text;  // key and value
  std::function<void(RunConfig&)> apply;
};

void recompute_all(RunConfig& config) {
  config.recompute.granularity = Recompute::full;
  config.recompute.modules = kCoreAttention;  // parts are of selective recomputation
}

/// Single keys, those that cost least time first.
std::vector<Change> single_changes(const RunConfig& config) {
  std::vector<Change> changes;
  const auto add = [&](const char* key, const auto& value, std::function<void(RunConfig&)> apply) {
    changes.push_back({key, fmt::format("{} {}", key, value), std::move(apply)});
  };
  if (config.parallel.tensor > 1 && !config.parallel.sequence_parallel) {
    add("sequence_parallel", true, [](RunConfig& c) { c.parallel.sequence_parallel = true; });
  }
  for (int zero = config.parallel.zero_stage + 1; zero <= 3 && config.parallel.copies() > 1; ++zero) {
    add("zero_stage", zero, [zero](RunConfig& c) { c.parallel.zero_stage = zero; });
  }
  for (std::int64_t size = config.batch.micro_batch_size / 2; size >= 1; size /= 2) {
    add("micro_batch_size", size, [size](RunConfig& c) { c.batch.micro_batch_size = size; });
  }
  if (config.recompute.granularity == Recompute::none) {
    add("recompute_granularity", "selective",
        [](RunConfig& c) { c.recompute.granularity = Recompute::selective; });
  }
  if (config.recompute.granularity != Recompute::full) {
    const bool named = config.recompute.modules != kCoreAttention;
    add("recompute_granularity", named ? "full, recompute_modules core_attn" : "full", recompute_all);
  }
  for (int factor = 2; factor <= config.parallel.data(); factor *= 2) {
    const int tensor = config.parallel.tensor * factor;
    add("tensor_model_parallel_size", tensor, [tensor](RunConfig& c) { c.parallel.tensor = tensor; });
  }
  for (int factor = 2; factor <= config.parallel.data(); factor *= 2) {
    const int pipeline = config.parallel.pipeline * factor;
    add("pipeline_model_parallel_size", pipeline,
        [pipeline](RunConfig& c) { c.parallel.pipeline = pipeline; });
  }
  return changes;
}

struct Found {
  std::string text;
  Fit fit;
};

/// Every saving at once, over tensor and pipeline sizes from the given ones on, on `world` ranks: the least
/// memory.
std::optional<Found> smallest_on(const RunConfig& given, const HardwareProfile& hardware, int world,
                                 Steps& steps) {
  std::optional<Found> best;
  RunConfig config = given;
  const int most_zero = given.spreads_experts() ? 2 : 3;
  config.parallel.world_size = world;
  config.batch.micro_batch_size = 1;
  recompute_all(config);
  config.parallel.sequence_parallel = !config.parallel.splits_vocabulary();
  for (int tensor = given.parallel.tensor; tensor <= 8 && tensor <= world; tensor *= 2) {
    for (int pipeline = given.parallel.pipeline; pipeline <= world / tensor; pipeline *= 2) {
      config.parallel.tensor = tensor;
      config.parallel.pipeline = pipeline;
      if (world % config.parallel.model_ranks() != 0) continue;
      config.parallel.zero_stage = world > tensor * pipeline ? most_zero : 0;
      const std::optional<Fit> fit = verdict_on(config, hardware, steps);
      if (!fit || (best && best->fit.needed <= fit->needed)) continue;
      best = Found{
          fmt::format("world_size {}, tensor_model_parallel_size {}, pipeline_model_parallel_size {}, "
                      "zero_stage {}, micro_batch_size 1, recompute_granularity full{}",
                      world, tensor, pipeline, config.parallel.zero_stage,
                      tensor > 1 && config.parallel.sequence_parallel ? ", sequence_parallel true" : ""),
          *fit};
    }
  }
  return best;
}

/// Up to three fitting changes, as one clause; empty when none fits.
class Ways {
 public:
  Ways(const HardwareProfile& hardware, Steps& steps) : hardware_(hardware), steps_(steps) {}
  bool enough() const { return found_.size() == 3; }
  bool consider(const std::string& text, const RunConfig& config) {
    const std::optional<Fit> fit = verdict_on(config, hardware_, steps_);
    if (!fit || !fit->fits) return false;
    found_.push_back(fmt::format("{} ({})", text, brief_bytes(fit->needed)));
    return true;
  }
  std::string clause() const {
    return found_.empty() ? "" : fmt::format("it would fit with {}", fmt::join(found_, ", or with "));
  }

 private:
  const HardwareProfile& hardware_;
  Steps& steps_;
  std::vector<std::string> found_;
};

std::string one_or_two_keys(const RunConfig& config, const HardwareProfile& hardware, Steps& steps) {
  const std::vector<Change> changes = single_changes(config);
  Ways ways(hardware, steps);
  std::string enough;
  for (const Change& change : changes) {
    if (ways.enough()) break;
    if (change.key == enough) continue;  // a smaller change of the same key is
    RunConfig changed = config;
    change.apply(changed);
    if (ways.consider(change.text, changed)) enough = change.key;
  }
  if (!ways.clause().empty()) return ways.clause();
  for (std::size_t i = 0; i < changes.size(); ++i) {
    for (std::size_t j = i + 1; j < changes.size() && !ways.enough(); ++j) {
      if (changes[i].key == changes[j].key) continue;
      RunConfig changed = config;
      changes[i].apply(changed);
      changes[j].apply(changed);
      ways.consider(changes[i].text + " and " + changes[j].text, changed);
    }
  }
  return ways.clause();
}

std::string way_out(const RunConfig& config, const HardwareProfile& hardware) {
  Steps steps;
  std::string keys = one_or_two_keys(config, hardware, steps);
  if (!keys.empty()) return keys;
  constexpr int kMostTimes = 1024;
  constexpr int kMostRanks = 1 << 16;
  std::optional<Found> least;
  for (int times = 1; times <= kMostTimes && times <= kMostRanks / config.parallel.world_size; times *= 2) {
    const std::optional<Found> found =
        smallest_on(config, hardware, config.parallel.world_size * times, steps);
    if (found && found->fit.fits) {
      return fmt::format("it would fit with {} ({})", found->text, brief_bytes(found->fit.needed));
    }
    if (found && (!least || found->fit.needed < least->fit.needed)) least = found;
    if (least && !found) break;  // no more ranks than micro-batches
  }
  if (!least) return "no other division of the model is possible; it takes a smaller model or more memory";
  return fmt::format(
      "the least found is {} with {}: it takes a device with that much, or a shorter seq_length",
      brief_bytes(least->fit.needed), least->text);
}

}  // namespace

std::string what_would_fit(const RunConfig& config, const HardwareProfile& hardware, const Fit& fit) {
  return fmt::format(
      "does not fit: rank {} needs {} of {}{}; {}", fit.rank, brief_bytes(fit.needed), brief_bytes(fit.limit),
      fit.by_device ? " of device memory, the allocator's margin included" : "", way_out(config, hardware));
}

}  // namespace plumbline
