#include "bench/training/trainer/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "bench/training/checkpoints/checkpoint_writer.hpp"
#include "bench/training/checkpoints/restore.hpp"
#include "bench/training/trainer/attended_pairs.hpp"
#include "bench/training/trainer/busy_share.hpp"
#include "bench/training/trainer/computing_program.hpp"
#include "bench/training/trainer/host_values.hpp"
#include "bench/training/trainer/measured_run.hpp"
#include "bench/training/trainer/routing_file.hpp"
#include "bench/training/weights/weight_files.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"
#include "core/base/statistics.hpp"

namespace plumbline::training {
namespace {

/// A mean loss of the step on every rank: only last stages have a share, and every tensor rank has the same
/// one.
double mean_loss(Communicator& control, double share) {
  const std::vector<double> shares = from_every_rank(control, share);
  double sum = 0;
  for (int rank = 0; rank < control.layout().world(); ++rank) {
    if (control.layout().coordinates(rank).tensor == 0) sum += shares[static_cast<std::size_t>(rank)];
  }
  return sum;
}

/// Those of every pipeline rank (tensor and data coordinate 0), on all ranks; nothing without any.
std::vector<std::vector<CollectiveEvent>> gather_collectives(const Schedule& schedule,
                                                             const std::vector<CollectiveEvent>& mine,
                                                             Communicator& control) {
  std::vector<std::vector<CollectiveEvent>> all;
  if (mine.empty()) return all;  // every rank has equally many
  for (int pipeline_rank = 0; pipeline_rank < schedule.ranks; ++pipeline_rank) {
    std::vector<CollectiveEvent>& events = all.emplace_back(mine);
    broadcast_values(control, control.layout().rank_of({0, 0, pipeline_rank}), events);
  }
  return all;
}

/// The same for lanes, whose number differs between ranks.
std::vector<std::vector<LaneSpan>> gather_lanes(const Schedule& schedule, const std::vector<LaneSpan>& mine,
                                                Communicator& control) {
  const std::vector<std::int64_t> sizes = from_every_rank(control, std::int64_t{std::ssize(mine)});
  std::vector<std::vector<LaneSpan>> all;
  for (int pipeline_rank = 0; pipeline_rank < schedule.ranks; ++pipeline_rank) {
    const int source = control.layout().rank_of({0, 0, pipeline_rank});
    std::vector<LaneSpan> spans(static_cast<std::size_t>(sizes[static_cast<std::size_t>(source)]));
    if (control.rank() == source) spans = mine;
    broadcast_values(control, source, spans);
    all.push_back(std::move(spans));
  }
  const bool none = std::all_of(all.begin(), all.end(), [](const auto& spans) { return spans.empty(); });
  return none ? std::vector<std::vector<LaneSpan>>() : all;
}

/// The mean over the same ranks.
LaneSums mean_lane_sums(const Schedule& schedule, const LaneSums& mine, Communicator& control) {
  const std::vector<LaneSums> all = from_every_rank(control, mine);
  LaneSums sums{};
  for (int pipeline_rank = 0; pipeline_rank < schedule.ranks; ++pipeline_rank) {
    const LaneSums& rank = all[static_cast<std::size_t>(control.layout().rank_of({0, 0, pipeline_rank}))];
    for (std::size_t place = 0; place < kLanes; ++place)
      add(sums, {lane_at(place), {}, rank[place].time, rank[place].exposed});
  }
  return mean_of(sums, schedule.ranks);
}

std::array<PeakHolder, kPeakHolders> largest_holders(const Arena& arena) {
  std::array<PeakHolder, kPeakHolders> largest{};
  const std::vector<HolderBytes> holders = arena.holders_at_peak();
  for (std::size_t i = 0; i < std::min(largest.size(), holders.size()); ++i) {
    std::strncpy(largest[i].name, holders[i].holder, sizeof largest[i].name - 1);
    largest[i].category = holders[i].category;
    largest[i].bytes = holders[i].bytes;
    largest[i].tensors = holders[i].tensors;
  }
  return largest;
}

/// On world rank 0, of skipped steps. Their times have no update.
void note_skipped(const LossScaleState& scale, bool constant, int steps, std::int64_t timed) {
  if (scale.skipped == 0) return;
  const std::string advice =
      constant ? "choose a smaller one" : fmt::format("set initial_loss_scale to {}", scale.scale);
  say(
      fmt::format("note: loss_scale: {} of {} steps made no update, {} of them timed, since gradients "
                  "overflowed fp16; {}\n",
                  scale.skipped, steps, timed, advice));
}

/// The checkpoint that the run resumes from; nothing: it begins with the first step.
std::optional<FoundCheckpoint> checkpoint_of(const CheckpointOptions& options, int all_steps) {
  if (options.resume.empty()) return std::nullopt;
  FoundCheckpoint found{options.resume, read_facts(options.resume)};
  if (found.facts.step >= all_steps) {
    throw InputError(fmt::format("--resume: {} is of step {}, expected one before the last of {} steps",
                                 found.folder, found.facts.step, all_steps));
  }
  return found;
}

}  // namespace

std::vector<std::vector<MemorySample>> gather_samples(const Schedule& schedule,
                                                      const std::vector<MemorySample>& mine,
                                                      Communicator& control) {
  std::vector<std::vector<MemorySample>> all;
  for (int pipeline_rank = 0; pipeline_rank < schedule.ranks; ++pipeline_rank) {
    const int source = control.layout().rank_of({0, 0, pipeline_rank});
    std::vector<MemorySample> samples(schedule.actions[static_cast<std::size_t>(pipeline_rank)].size());
    if (control.rank() == source) samples = mine;
    broadcast_values(control, source, samples);
    all.push_back(std::move(samples));
  }
  return all;
}

TrainingResult train(const RunConfig& config, const Schedule& schedule, Operators& operators,
                     Communicator& communicator, Communicator& control, std::unique_ptr<MemorySource> memory,
                     const StepProgress& progress, StepObserver* observer,
                     const CheckpointOptions& checkpoints, WorkClock worked, HostLane* host) {
  const int all_steps = config.measure.warmup_steps + config.measure.steps;
  const auto began = std::chrono::steady_clock::now();
  const std::optional<FoundCheckpoint> checkpoint = checkpoint_of(checkpoints, all_steps);
  Arena arena(config.machine.memory_budget, std::move(memory));
  MeasuredRun run(config, schedule, operators, communicator, control, arena, observer, checkpoint,
                  std::move(worked), host);
  RankStages& stages = run.stages();

  TrainingResult result;
  if (checkpoint) result.losses = checkpoint->facts.losses;
  if (config.machine.backend != Backend::emulated) result.energy.emplace();
  const int done = static_cast<int>(result.losses.size());
  const Seconds restored{std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count()};
  std::optional<CheckpointWriter> writer;
  if (!checkpoints.folder.empty())
    writer.emplace(checkpoints, stages, control, [](const std::string& line) { say(line); });
  if (checkpoints.on() && control.rank() == 0)
    say(fmt::format("next is step {} of {}\n", done + 1, all_steps));
  RoutingFile routing(config.files.save_routing);
  std::vector<StepMeasurement> timed;
  AttendedPairs attended(config, control);
  std::int64_t skipped_timed = 0;
  bool any_update = false;
  for (int step = done; step < all_steps; ++step) {
    const bool saves_gradients = step + 1 == all_steps && !config.files.save_gradients.empty();
    stages.keep_gradients(saves_gradients);
    if (step == config.measure.warmup_steps) run.computing().forget();
    ProcessorEnergy* const energy =
        result.energy && step >= config.measure.warmup_steps ? &*result.energy : nullptr;
    if (energy != nullptr) energy->begin();
    StepMeasurement measured = run.step(step);
    if (energy != nullptr) energy->end();
    const bool updated = std::isfinite(stages.gradient_norm());
    if (step >= config.measure.warmup_steps && !updated) ++skipped_timed;
    if (updated || !any_update) result.step_traffic = run.traffic();
    any_update = any_update || updated;
    result.losses.push_back(mean_loss(control, stages.loss()));
    if (config.batch.packed_sequence) attended.add(stages.attended_pairs());
    run.check_finite(step, all_steps, result.losses.back());
    if (step >= config.measure.warmup_steps) {
      result.step_times.push_back(measured.time);
      result.step_loads.push_back(measured.load);
      result.lost.push_back(std::move(measured.lost));
      timed.push_back(std::move(measured));
    }
    routing.step_ended(stages, step, control);
    if (saves_gradients) save_gradients(stages, config.files.save_gradients);
    if (control.rank() == 0 && progress) progress(step + 1, all_steps, result.losses.back());
    if (writer) writer->step_ended(result.losses, all_steps);
  }
  if (writer) writer->finish();
  if (checkpoints.on()) {
    result.checkpoints = writer ? writer->costs() : CheckpointCosts();
    result.checkpoints->resumed_step = done;
    if (checkpoint) result.checkpoints->restore = restored;
  }
  if (config.batch.packed_sequence) result.attention = attended.shares();
  if (config.model.mixture) result.expert_load = gather_layer_loads(stages, control);
  routing.write();
  if (!config.files.save_weights.empty()) save_weights(stages, config.files.save_weights);

  for (const double share : stages.module_losses()) result.module_losses.push_back(mean_loss(control, share));
  result.gradient_norm = stages.gradient_norm();
  result.loss_scale = stages.loss_scale();
  if (result.loss_scale && control.rank() == 0)
    note_skipped(*result.loss_scale, config.numerics.loss_scale.constant.has_value(), all_steps,
                 skipped_timed);
  if (!timed.empty()) {
    const StepMeasurement& median = timed[lower_median_index(result.step_times)];
    result.trace = gather_trace(schedule, median.events, control);
    result.trace.collectives = gather_collectives(schedule, median.collectives, control);
    result.lanes = gather_lanes(schedule, median.lanes, control);
    result.lane_sums = mean_lane_sums(schedule, median.lane_sums, control);
    result.samples = gather_samples(schedule, stages.samples(), control);
    result.computing = gather_computing(schedule, run.computing().seconds(), config.measure.steps, control);
    const BusyTime busy{Trace{{median.events}}.busy(0), median.tensor_communication, median.vocabulary_waits,
                        median.data_communication, median.host_waits};
    const BusyTime mean = mean_shares(from_every_rank(control, busy), mean_busy(result.trace));
    result.tensor_communication = mean.tensor_communication;
    result.data_communication = mean.data_communication;
    result.host_waits = mean.host_waits;
    result.vocabulary_waits = mean.vocabulary_waits;
  }
  result.memory = from_every_rank(
      control, MeasuredMemory{arena.at_peak(), stages.host_peak(), arena.reserved(), largest_holders(arena)});
  result.traffic = communicator.traffic();
  return result;
}

}  // namespace plumbline::training
