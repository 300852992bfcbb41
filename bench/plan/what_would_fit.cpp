#include "bench/plan/what_would_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/hardware/profiles/software_arguments.hpp"
#include "analysis/predict/prediction_rows.hpp"
#include "analysis/predict/software_rows.hpp"
#include "analysis/step/software_of.hpp"
#include "bench/plan/plan.hpp"
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
  if (why_invalid(config) || why_unpredictable(config) || why_unpredictable(config, hardware))
    return std::nullopt;
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
  if (config.recompute.partial()) config.recompute.num_layers = 1;
  config.recompute.granularity = Recompute::full;
  config.recompute.method = RecomputeMethod::uniform;
  config.recompute.modules = kCoreAttention;  // parts are of selective recomputation
}

/// The highest ZeRO stage to propose.
int most_zero(const RunConfig& config) {
  const Software& software = software_of(config);
  if (software.communication.sharded) return config.parallel.dp.zero_stage;
  return std::min(most_zero_stage(config), config.spreads_experts() ? 2 : 3);
}

/// Splits tensors over `ranks`, as the software does it: with sequences, without a padded vocabulary. Returns
/// the settings, ", KEY VALUE" for each besides the size.
std::string set_tensor(RunConfig& config, int ranks) {
  const SoftwareArguments& has = software_arguments(config.machine.software);
  ParallelConfig& parallel = config.parallel;
  parallel.tensor = ranks;
  std::string more;
  if (has.always_sequence_parallel && !parallel.sequence_parallel) {
    parallel.sequence_parallel = true;
    more += ", sequence_parallel true";
  }
  if (!has.pads_vocabulary && config.padded_vocab() != config.model.vocab) {
    parallel.make_vocab_size_divisible_by = 1;
    more += ", make_vocab_size_divisible_by 1";
  }
  return more;
}

/// Expert-parallel sizes to propose, from the given one on; only that without experts.
std::vector<int> expert_sizes(const RunConfig& config, int ranks) {
  std::vector<int> sizes = {config.parallel.expert};
  if (!config.model.mixture) return sizes;
  for (int size = config.parallel.expert * 2; size <= ranks && size <= config.model.mixture.experts;
       size *= 2)
    if (config.model.mixture.experts % size == 0) sizes.push_back(size);
  return sizes;
}

/// Ranks of a tensor group to propose at most: those of a node of 8, or the given ones.
constexpr int kMostTensor = 8;

/// Single keys, those that cost least time first.
std::vector<Change> single_changes(const RunConfig& config) {
  std::vector<Change> changes;
  const auto add = [&](const char* key, const auto& value, std::function<void(RunConfig&)> apply) {
    changes.push_back({key, fmt::format("{} {}", key, value), std::move(apply)});
  };
  if (config.parallel.tensor > 1 && !config.parallel.sequence_parallel) {
    add("sequence_parallel", true, [](RunConfig& c) { c.parallel.sequence_parallel = true; });
  }
  const int zeros = config.parallel.copies() > 1 ? most_zero(config) : 0;
  for (int zero = config.parallel.dp.zero_stage + 1; zero <= zeros; ++zero) {
    add("zero_stage", zero, [zero](RunConfig& c) { c.parallel.dp.zero_stage = zero; });
  }
  for (const int expert : expert_sizes(config, config.parallel.world_size)) {
    if (expert == config.parallel.expert) continue;
    add("expert_model_parallel_size", expert, [expert](RunConfig& c) { c.parallel.expert = expert; });
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
  } else if (config.recompute.partial()) {
    add("recompute_method", "uniform, recompute_num_layers 1", recompute_all);
  }
  for (int factor = 2; factor <= config.parallel.data(); factor *= 2) {
    const int tensor = config.parallel.tensor * factor;
    if (tensor > kMostTensor) break;
    RunConfig changed = config;
    add("tensor_model_parallel_size", fmt::format("{}{}", tensor, set_tensor(changed, tensor)),
        [tensor](RunConfig& c) { set_tensor(c, tensor); });
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

/// Pipeline sizes for `ranks`: the given one, larger ones, smaller ones.
std::vector<int> pipeline_sizes(int given, int ranks) {
  std::vector<int> sizes;
  for (int size = given; size <= ranks; size *= 2) sizes.push_back(size);
  for (int size = given; size % 2 == 0;) sizes.push_back(size /= 2);
  return sizes;
}

/// Every saving at once, over tensor sizes from the given one on, pipeline and expert-parallel sizes, on
/// `world` ranks: the least memory; without recomputation where that fits too.
std::optional<Found> smallest_on(const RunConfig& given, const HardwareProfile& hardware, int world,
                                 Steps& steps) {
  std::optional<Fit> best;
  RunConfig smallest;
  RunConfig config = given;
  config.parallel.world_size = world;
  config.batch.micro_batch_size = 1;
  recompute_all(config);
  config.parallel.sequence_parallel =
      !config.parallel.splits_vocabulary() && software_arguments(config.machine.software).sequence_parallel;
  for (int tensor = given.parallel.tensor; tensor <= kMostTensor && tensor <= world; tensor *= 2) {
    for (const int pipeline : pipeline_sizes(given.parallel.pipeline, world / tensor)) {
      config.parallel.pipeline = pipeline;
      config.parallel.make_vocab_size_divisible_by = given.parallel.make_vocab_size_divisible_by;
      set_tensor(config, tensor);
      if (world % config.parallel.model_ranks() != 0) continue;
      for (const int expert : expert_sizes(given, world / pipeline)) {
        config.parallel.expert = expert;
        config.parallel.dp.zero_stage = 0;
        if (config.parallel.copies() > 1)
          config.parallel.dp.zero_stage = given.parallel.dp.zero_stage > most_zero(given)
                                              ? given.parallel.dp.zero_stage  // predicted as if
                                              : most_zero(config);
        if (why_not_advised(given, config)) continue;
        const std::optional<Fit> fit = verdict_on(config, hardware, steps);
        if (!fit || (best && best->needed <= fit->needed)) continue;
        best = fit;
        smallest = config;
      }
    }
  }
  if (!best) return std::nullopt;
  if (given.recompute.granularity != Recompute::full) {
    RunConfig faster = smallest;
    faster.recompute = given.recompute;
    const std::optional<Fit> fit = best->fits ? verdict_on(faster, hardware, steps) : std::nullopt;
    if (fit && fit->fits) {
      best = fit;
      smallest = faster;
    }
  }
  const ParallelConfig& parallel = smallest.parallel;
  std::string text =
      fmt::format("world_size {}, tensor_model_parallel_size {}, pipeline_model_parallel_size {}", world,
                  parallel.tensor, parallel.pipeline);
  if (!software_of(given).communication.sharded)  // else every stage is the same
    text += fmt::format(", zero_stage {}", parallel.dp.zero_stage);
  text += ", micro_batch_size 1";
  if (parallel.expert != given.parallel.expert)
    text += fmt::format(", expert_model_parallel_size {}", parallel.expert);
  if (smallest.recompute.granularity == Recompute::full) text += ", recompute_granularity full";
  if (parallel.tensor > 1 && parallel.sequence_parallel) text += ", sequence_parallel true";
  if (parallel.make_vocab_size_divisible_by != given.parallel.make_vocab_size_divisible_by)
    text += fmt::format(", make_vocab_size_divisible_by {}", parallel.make_vocab_size_divisible_by);
  return Found{text, *best};
}

/// Up to three fitting changes, as one clause; empty when none fits.
class Ways {
 public:
  Ways(const RunConfig& given, const HardwareProfile& hardware, Steps& steps)
      : given_(given), hardware_(hardware), steps_(steps) {}
  bool enough() const { return found_.size() == 3; }
  bool consider(const std::string& text, const RunConfig& config) {
    if (why_not_advised(given_, config)) return false;
    const std::optional<Fit> fit = verdict_on(config, hardware_, steps_);
    if (!fit || !fit->fits) return false;
    found_.push_back(fmt::format("{} ({})", text, brief_bytes(fit->needed)));
    return true;
  }
  std::string clause() const {
    return found_.empty() ? "" : fmt::format("it would fit with {}", fmt::join(found_, ", or with "));
  }

 private:
  const RunConfig& given_;
  const HardwareProfile& hardware_;
  Steps& steps_;
  std::vector<std::string> found_;
};

std::string one_or_two_keys(const RunConfig& config, const HardwareProfile& hardware, Steps& steps) {
  const std::vector<Change> changes = single_changes(config);
  Ways ways(config, hardware, steps);
  std::set<std::string> proposed;
  for (const Change& change : changes) {
    if (ways.enough()) break;
    if (proposed.contains(change.key)) continue;  // a smaller change of the same key is
    RunConfig changed = config;
    change.apply(changed);
    if (ways.consider(change.text, changed)) proposed.insert(change.key);
  }
  // Pairs may cost less with a mixture: experts on more ranks.
  if (!ways.clause().empty() && !config.model.mixture) return ways.clause();
  for (std::size_t i = 0; i < changes.size(); ++i) {
    for (std::size_t j = i + 1; j < changes.size() && !ways.enough(); ++j) {
      const std::string keys = changes[i].key + " and " + changes[j].key;
      if (changes[i].key == changes[j].key || proposed.contains(keys)) continue;
      if (proposed.contains(changes[i].key) || proposed.contains(changes[j].key)) continue;
      RunConfig changed = config;
      changes[i].apply(changed);
      changes[j].apply(changed);
      if (ways.consider(changes[i].text + " and " + changes[j].text, changed)) proposed.insert(keys);
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
