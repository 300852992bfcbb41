#include "analysis/reinforcement/placement_search.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "analysis/reinforcement/response_lengths.hpp"
#include "core/base/error.hpp"
#include "core/reinforcement/phases.hpp"

namespace plumbline {
namespace {

constexpr int kMostPipeline = 16;
constexpr std::int64_t kMostMicroBatch = 8;

/// Ranks of either side; `rollout` 0: those that train.
struct Split {
  RolloutPlacement placement;
  int training;
  int rollout;
};

class PlacementSearch {
 public:
  PlacementSearch(const RunConfig& config, const PlacementRequest& request, const HardwareProfile& hardware,
                  const std::function<RepeatedSchedule(const RunConfig&)>& make)
      : config_(config),
        request_(request),
        hardware_(hardware),
        make_(make),
        lengths_(response_lengths(config)) {
    const Accelerator* const accelerator = hardware.accelerator();
    node_ = accelerator != nullptr ? std::max(1, accelerator->constants.network.gpus_per_node) : request.gpus;
  }

  PlacementResult run() {
    const std::vector<Split> splits = splits_of();
    std::vector<std::pair<int, std::vector<RunConfig>>> layouts;  // by ranks that train
    for (const Split& split : splits) {
      const auto same = [&](const auto& each) { return each.first == split.training; };
      if (std::none_of(layouts.begin(), layouts.end(), same))
        layouts.emplace_back(split.training, training_layouts(split.training));
    }
    int all = 0, done = 0;
    for (const auto& [ranks, configs] : layouts) all += static_cast<int>(configs.size());
    for (const auto& [ranks, configs] : layouts) {
      for (const RunConfig& layout : configs) {
        if (request_.stopped && request_.stopped()) {
          made_.complete = false;
          return finished();
        }
        try_layout(layout, splits);
        if (request_.done) request_.done(++done, all);
      }
    }
    return finished();
  }

 private:
  PlacementResult finished() {
    std::sort(made_.of_placement.begin(), made_.of_placement.end(), before);
    return std::move(made_);
  }
  bool fixed(const char* key) const { return request_.fixed.count(key) > 0; }
  /// Powers of two up to `most`, or the configuration's value if the key is fixed.
  std::vector<int> sizes(const char* key, int given, int most) const {
    if (fixed(key)) return {given};
    std::vector<int> found;
    for (int size = 1; size <= most; size *= 2) found.push_back(size);
    return found;
  }

  /// Shares of the device that an engine takes.
  std::vector<double> shares() const {
    const RolloutConfig& given = config_.reinforcement.rollout;
    if (fixed("gpu_memory_utilization") || !is_inference_engine(given.software))
      return {given.memory_utilization};
    return {0.4, 0.5, 0.6, 0.7, 0.8, 0.9};
  }

  std::vector<Split> splits_of() const {
    std::vector<Split> found;
    const int gpus = request_.gpus;
    const int unit = gpus % node_ == 0 && gpus > node_ ? node_ : 1;
    for (const RolloutPlacement placement : {RolloutPlacement::colocated, RolloutPlacement::resident,
                                             RolloutPlacement::split, RolloutPlacement::one_step_off}) {
      const RolloutConfig& given = config_.reinforcement.rollout;
      if (fixed("rollout_placement") && placement != given.placement) continue;
      RolloutConfig with = given;
      with.placement = placement;
      if (!with.own_ranks()) {
        found.push_back({placement, gpus, 0});
        continue;
      }
      std::set<int> pools;
      if (fixed("rollout_world_size")) {
        pools = {given.world};
      } else {
        for (const int quarter : {1, 2, 3}) pools.insert(gpus * quarter / 4 / unit * unit);
      }
      for (const int pool : pools)
        if (pool > 0 && pool < gpus) found.push_back({placement, gpus - pool, pool});
    }
    return found;
  }

  /// Valid layouts of training alone.
  std::vector<RunConfig> training_layouts(int ranks) {
    std::vector<RunConfig> found;
    const ParallelConfig& given = config_.parallel;
    const auto experts = static_cast<int>(config_.model.mixture.experts);
    for (const int tensor : sizes("tensor_model_parallel_size", given.tensor, std::min(ranks, node_)))
      for (const int pipeline : sizes("pipeline_model_parallel_size", given.pipeline, kMostPipeline))
        for (const int expert : sizes("expert_model_parallel_size", given.expert, std::max(1, experts)))
          add_layouts(ranks, tensor, pipeline, expert, found);
    return found;
  }
  void add_layouts(int ranks, int tensor, int pipeline, int expert, std::vector<RunConfig>& found) {
    if (ranks % (tensor * pipeline * config_.parallel.context) != 0) return;
    std::vector<std::int64_t> batches;
    for (std::int64_t size = 1; size <= kMostMicroBatch; size *= 2) batches.push_back(size);
    if (fixed("micro_batch_size")) batches = {config_.batch.micro_batch_size};
    std::vector<Recompute> recomputations = {Recompute::none, Recompute::full};
    if (fixed("recompute_granularity")) recomputations = {config_.recompute.granularity};
    for (const std::int64_t batch : batches)
      for (const Recompute recompute : recomputations) {
        RunConfig layout = config_;
        layout.parallel.world_size = ranks;
        layout.parallel.tensor = tensor;
        layout.parallel.pipeline = pipeline;
        layout.parallel.expert = expert;
        layout.parallel.sequence_parallel = tensor > 1;
        layout.batch.micro_batch_size = batch;
        layout.recompute.granularity = recompute;
        RolloutConfig& rollout = layout.reinforcement.rollout;
        rollout.placement = RolloutPlacement::resident;  // any: only training is asked about here
        rollout.world = 0;
        rollout.tensor = rollout.pipeline = 1;
        if (const auto reason = why_phases_invalid(layout))
          made_.refused = *reason;
        else
          found.push_back(std::move(layout));
      }
  }

  void try_layout(const RunConfig& layout, const std::vector<Split>& splits) {
    std::optional<TrainingSide> training;
    try {
      training = predict_training_side(layout, lengths_, hardware_, make_);
    } catch (const InputError& error) {
      made_.refused = error.what();
      return;
    }
    const int most = std::max(node_, 32);
    for (const Split& split : splits) {
      if (split.training != layout.parallel.world_size) continue;
      const int ranks = split.rollout > 0 ? split.rollout : split.training;
      const RolloutConfig& given = config_.reinforcement.rollout;
      for (const int tensor :
           sizes("rollout_tensor_model_parallel_size", given.tensor, std::min(ranks, most))) {
        RunConfig placed = layout;
        RolloutConfig& rollout = placed.reinforcement.rollout;
        rollout.placement = split.placement;
        rollout.world = split.rollout;
        rollout.tensor = tensor;
        rollout.pipeline = std::max(1, given.pipeline);
        keep(best_share(std::move(placed), ranks, *training));
      }
    }
  }

  /// Predicted once for its ranks and tensor size; null if it is invalid.
  const RolloutPrediction* rollout_of(const RunConfig& placed, int ranks) {
    const RolloutConfig& of = placed.reinforcement.rollout;
    const std::tuple key(ranks, of.tensor, of.memory_utilization);
    const auto [found, added] = rollouts_.try_emplace(key);
    if (!added) return found->second ? &*found->second : nullptr;
    try {
      if (const auto reason = why_phases_invalid(placed)) throw InputError(*reason);
      found->second = predict_rollout(placed, lengths_, hardware_);
    } catch (const InputError& error) {
      made_.refused = error.what();
    }
    return found->second ? &*found->second : nullptr;
  }

  /// The fastest share that fits, the smallest of equals; nothing if none fits.
  std::optional<PlacedStep> best_share(RunConfig placed, int ranks, const TrainingSide& training) {
    std::optional<PlacedStep> best;
    for (const double share : shares()) {
      placed.reinforcement.rollout.memory_utilization = share;
      const RolloutPrediction* const rollout = rollout_of(placed, ranks);
      if (rollout == nullptr) continue;
      ReinforcementPrediction joined = join_sides(placed, hardware_, training, *rollout);
      ++made_.predicted;
      if (!joined.fits) continue;
      ++made_.fitting;
      if (!best || joined.step < best->prediction.step) best = {placed, std::move(joined)};
    }
    return best;
  }
  static bool before(const PlacedStep& a, const PlacedStep& b) {
    const auto order = [](const ReinforcementPrediction& made) {
      return std::pair(made.step, made.phases[made.fullest].needed);
    };
    return order(a.prediction) < order(b.prediction);
  }
  void keep(std::optional<PlacedStep> step) {
    if (!step) return;
    const auto same = [&](const PlacedStep& each) {
      return each.config.reinforcement.rollout.placement == step->config.reinforcement.rollout.placement;
    };
    const auto of = std::find_if(made_.of_placement.begin(), made_.of_placement.end(), same);
    if (of == made_.of_placement.end()) {
      made_.of_placement.push_back(*step);
    } else if (before(*step, *of)) {
      *of = *step;
    }
    const auto at = std::upper_bound(made_.best.begin(), made_.best.end(), *step, before);
    const auto top = static_cast<std::size_t>(request_.top);
    if (at == made_.best.end() && made_.best.size() >= top) return;
    made_.best.insert(at, std::move(*step));
    if (made_.best.size() > top) made_.best.pop_back();
  }

  const RunConfig& config_;
  const PlacementRequest& request_;
  const HardwareProfile& hardware_;
  const std::function<RepeatedSchedule(const RunConfig&)>& make_;
  const std::vector<std::int64_t> lengths_;
  int node_ = 1;  // ranks
  std::map<std::tuple<int, int, double>, std::optional<RolloutPrediction>> rollouts_;
  PlacementResult made_;
};

}  // namespace

PlacementResult search_placements(const RunConfig& config, const PlacementRequest& request,
                                  const HardwareProfile& hardware,
                                  const std::function<RepeatedSchedule(const RunConfig&)>& make) {
  return PlacementSearch(config, request, hardware, make).run();
}

}  // namespace plumbline
