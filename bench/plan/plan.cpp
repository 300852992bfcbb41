#include "bench/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "analysis/simulate/simulator.hpp"
#include "analysis/time/stage/time_model.hpp"
#include "bench/plan/distillation_plan.hpp"
#include "bench/plan/mean_times.hpp"
#include "bench/plan/placement_check.hpp"
#include "core/base/error.hpp"
#include "core/config/layer_distribution.hpp"
#include "core/schedule/schedule_traits.hpp"
#include "core/schedule_text/schedule_text.hpp"
#include "core/validate/validate.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"
#include "schedules/repeating.hpp"

namespace plumbline {
namespace {

bool is_file(const std::string& schedule) {
  return schedule.ends_with(".csv") || schedule.ends_with(".json");
}

Schedule load_for(const RunConfig& config) {
  Schedule schedule = drop_transfers(load_schedule(config.parallel.pp.schedule));
  const int ranks = config.parallel.pipeline;
  if (schedule.ranks != ranks || schedule.microbatches != config.microbatches()) {
    throw InputError(fmt::format("{}: found {} ranks and {} micro-batches, expected {} and {}",
                                 config.parallel.pp.schedule, schedule.ranks, schedule.microbatches, ranks,
                                 config.microbatches()));
  }
  for (const auto& actions : schedule.actions) {
    for (const Action& action : actions) {
      if (action.type == ActionType::forward || action.type == ActionType::backward ||
          action.type == ActionType::backward_input || action.type == ActionType::backward_weight) {
        continue;
      }
      throw InputError(fmt::format("{}: found action {}, expected only F, B, I and W besides transfers",
                                   config.parallel.pp.schedule, to_string(action)));
    }
  }
  return schedule;
}

/// FLOPs of a rank's passes as times: the order must not depend on the machine that it is made on. The input
/// layer has none; its passes count as a hundredth of the output layer's, a collective as a tenth of a rank's
/// forward.
VocabTimes vocab_times(const RunConfig& config, const ScheduleRequest& request) {
  const int chunks = std::max(request.chunks, default_chunks(request.name));
  const double layers = static_cast<double>(config.model.layers) / (request.ranks * chunks);
  const double product = output_layer_in_layers(config) / request.ranks;  // of a shard, once
  const bool one_barrier = request.vocab == VocabPasses::one_barrier;
  VocabTimes times;
  times.forward = {layers};
  times.backward = {2 * layers};
  times.vocab_forward = {one_barrier ? 2 * product : product};
  times.vocab_backward = {one_barrier ? product : 2 * product};
  times.input_forward = times.input_backward = {product / 100};
  const Seconds collective{layers * chunks / 10};
  times.hidden = times.statistics = times.gradient = collective;
  times.embedding = times.embedding_gradient = collective;
  return times;
}

Schedule with_transfers_and_end(const RunConfig& config, const Schedule& schedule);

/// V-Half's passes meet all ranks in an order whose length depends on small differences. Takes the shortest
/// of the orders for different times, on the named hardware.
Schedule shortest_on_hardware(const RunConfig& config, ScheduleRequest request) {
  HardwareProfile hardware = load_hardware(config.machine.hardware);
  if (config.machine.backend == Backend::emulated) hardware.unshare_processors();
  Schedule best = make_schedule(request);
  Schedule step = with_transfers_and_end(config, best);
  const Costs costs = stage_costs(config, step, hardware).costs;
  Seconds length = simulate_makespan(step, costs);
  VocabTimes times = mean_times(costs, request.ranks);
  for (const Seconds transfer : {Seconds{0}, costs.transfer + costs.latency}) {
    times.transfer = transfer;
    request.vocab_times = times;
    Schedule schedule = make_schedule(request);
    step = with_transfers_and_end(config, schedule);
    const Seconds found = simulate_makespan(step, costs);
    if (found.value < length.value) {
      length = found;
      best = std::move(schedule);
    }
  }
  return best;
}

/// Times of zb-auto's actions: equal ones, independent of the machine, for schedules that are executed here;
/// predicted ones for another framework. Attention's scores and dropout masks, two fifths or more of a
/// layer's activations, go with I.
ZeroBubbleCosts zero_bubble_costs(const RunConfig& config, ScheduleRequest request) {
  ZeroBubbleCosts costs;
  costs.memory_limit = config.parallel.pp.zero_bubble_memory * request.ranks;
  if (config.machine.own_step() || config.machine.hardware.empty()) {
    const std::vector<Seconds> equal(static_cast<std::size_t>(request.ranks), Seconds{1});
    costs.forward = costs.backward_input = costs.backward_weight = equal;
    return costs;
  }
  request.name = "zb-h1";
  const Costs priced = stage_costs(config, with_transfers_and_end(config, make_schedule(request)),
                                   load_hardware(config.machine.hardware))
                           .costs;
  for (const StageCosts& stage : priced.stages) {
    costs.forward.push_back(stage.forward);
    costs.backward_input.push_back(stage.backward_input);
    costs.backward_weight.push_back(stage.backward_weight);
  }
  costs.transfer = priced.transfer + priced.latency;
  costs.held_after_input = 0.6;
  return costs;
}

/// Other software's schedules are as they are without.
bool runs_pairs(const RunConfig& config) {
  return config.parallel.ep.overlap_comm && config.machine.own_step();
}

ScheduleRequest request_for(const RunConfig& config) {
  ScheduleRequest request;
  request.name = config.parallel.pp.schedule;
  request.ranks = config.parallel.pipeline;
  request.microbatches = config.microbatches();
  if (config.parallel.pp.virtual_chunks > 1) request.chunks = config.parallel.pp.virtual_chunks;
  request.vocab = config.parallel.pp.vocab_parallel;
  request.pairs = runs_pairs(config);
  return request;
}

Schedule make_for(const RunConfig& config) {
  ScheduleRequest request = request_for(config);
  if (config.parallel.splits_vocabulary()) {
    request.vocab_times = vocab_times(config, request);
    if (!config.machine.hardware.empty() && schedule_traits(request.name).v_shaped())
      return shortest_on_hardware(config, request);
  }
  if (schedule_traits(request.name).order == OrderFrom::zero_bubble_times) {
    const bool measured = !config.machine.own_step();
    if (measured || config.parallel.pp.zero_bubble_memory != 1)
      request.zero_bubble = zero_bubble_costs(config, request);
  }
  Schedule schedule = make_schedule(request);
  // A pair is a forward and an input gradient, whose weight gradients follow it.
  if (config.parallel.ep.delay_wgrad_compute && runs_pairs(config)) return split_backward(schedule);
  const PipelineConfig& pp = config.parallel.pp;
  if (!pp.defer_embedding_wgrad_compute) return schedule;
  return pp.wgrad_deferral_limit > 0 ? defer_output_gradients(std::move(schedule), pp.wgrad_deferral_limit)
                                     : defer_output_gradients(std::move(schedule));
}

Schedule with_transfers_and_end(const RunConfig& config, const Schedule& schedule) {
  const Layout layout = config.layout();
  const bool copied_experts = config.spreads_experts() && config.parallel.expert_copies() > 1;
  const StepEndActions end = {.data_parallel = layout.data > 1 || copied_experts,
                              .tied_embedding = copies_embedding(config)};
  // When another framework's runtime posts its messages is in its traits, not in the schedule.
  if (!config.machine.own_step()) return add_step_end(schedule, end);
  // Our executor's sends return at once. All ranks may meet for a pass before they receive. A message
  // received no earlier than needed would then keep its sender waiting for room to send the next.
  const bool meetings = schedule.vocab == VocabPasses::interlaced;
  Schedule with_transfers =
      add_transfers(schedule, meetings ? TransferOrder::sends_first : TransferOrder::posted);
  // No rank updates before all have added up the gradient's norm, even if the schedule would allow it.
  with_transfers.barrier_at_end = true;
  return add_step_end(with_transfers, end);
}

/// Three short schedules are made in place of a long one: worth it if that is several times as long.
bool may_repeat(const RunConfig& config) {
  constexpr int kLong = 8;
  const bool alike = config.mixture.routing == MixtureConfig().routing;  // micro-batches are
  return alike && !runs_pairs(config) && !config.parallel.pp.defer_embedding_wgrad_compute &&
         !config.distillation.teacher && schedule_traits(config.parallel.pp.schedule).repeats &&
         !config.parallel.splits_vocabulary() && config.microbatches() / kLong >= config.parallel.pipeline;
}

}  // namespace

Schedule schedule_for(const RunConfig& config) {
  const auto complete = [&](const Schedule& compute) { return with_transfers_and_end(config, compute); };
  Schedule schedule = config.distillation.teacher            ? distillation_schedule_for(config, complete)
                      : is_file(config.parallel.pp.schedule) ? load_for(config)
                                                             : make_for(config);
  check_placement(config, schedule);
  schedule = complete(schedule);
  validate(schedule);
  return schedule;
}

constexpr std::int64_t kMostPredicted = std::int64_t{1} << 24;

std::int64_t cells_of_step(const RunConfig& config) {
  const std::int64_t ranks = config.parallel.pipeline;
  constexpr int kShort = 6;  // two, three times
  return ranks * (may_repeat(config) ? kShort * ranks : config.microbatches());
}

namespace {

void check_length(const RunConfig& config) {
  // Forward, backward and the messages between; more than a GiB in all.
  const int each = config.parallel.pipeline > 1 ? 6 : 2;
  const std::int64_t actions = cells_of_step(config) * each;
  if (actions > kMostPredicted) {
    const bool repeats = schedule_traits(config.parallel.pp.schedule).repeats;
    throw InputError(fmt::format(
        "pipeline_schedule: {} with {} pipeline ranks and {} micro-batches has about {} actions, expected at "
        "most {} for a prediction: use at most {} micro-batches, fewer ranks{}",
        config.parallel.pp.schedule, config.parallel.pipeline, config.microbatches(), actions, kMostPredicted,
        kMostPredicted / (std::int64_t{each} * config.parallel.pipeline),
        repeats ? "" : ", or a schedule that repeats itself, such as 1f1b"));
  }
}

/// Sizes that decide a schedule's stages, or its refusal.
using PlacementKey = std::tuple<std::string, int, int, int, bool, bool>;

/// Stages of a schedule without its actions, or why it cannot be made.
struct Placement {
  Schedule schedule;
  std::string refusal;
};

Placement make_placement(const RunConfig& config) {
  Placement placement;
  try {
    std::optional<RepeatedSchedule> repeated;
    if (may_repeat(config))
      repeated = make_repeated(request_for(config), [](const Schedule& compute) { return compute; });
    placement.schedule = repeated ? std::move(repeated->once) : make_for(config);
  } catch (const InputError& error) {
    placement.refusal = error.what();
  }
  placement.schedule.actions.clear();
  return placement;
}

}  // namespace

void check_step(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const bool by_sizes = !config.distillation.teacher && !is_file(parallel.pp.schedule) &&
                        !parallel.splits_vocabulary() &&
                        schedule_traits(parallel.pp.schedule).order == OrderFrom::sizes;
  if (!by_sizes) {
    step_for(config);
    return;
  }
  check_length(config);
  static std::mutex mutex;
  static std::map<PlacementKey, Placement> known;
  constexpr std::size_t kMostPlacements = 4096;
  const PlacementKey key{parallel.pp.schedule,  parallel.pipeline,
                         config.microbatches(), parallel.pp.virtual_chunks,
                         runs_pairs(config),    parallel.pp.defer_embedding_wgrad_compute};
  const std::lock_guard lock(mutex);
  auto found = known.find(key);
  if (found == known.end()) {
    if (known.size() >= kMostPlacements) known.clear();
    found = known.emplace(key, make_placement(config)).first;
  }
  if (!found->second.refusal.empty()) throw InputError(found->second.refusal);
  check_placement(config, found->second.schedule);
}

RepeatedSchedule step_for(const RunConfig& config) {
  check_length(config);
  if (may_repeat(config)) {
    const auto complete = [&](const Schedule& compute) { return with_transfers_and_end(config, compute); };
    if (auto step = make_repeated(request_for(config), complete)) {
      check_placement(config, step->once);
      return *std::move(step);
    }
  }
  return schedule_for(config);
}

}  // namespace plumbline
