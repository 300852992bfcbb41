// Lanes alongside computation: on emulated H100s collectives and copies begin and end where the predicted
// lanes have them, and are exposed for as long.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "analysis/predict/predict.hpp"
#include "analysis/simulate/simulator.hpp"
#include "analysis/time/action_lanes.hpp"
#include "analysis/time/lane_sums.hpp"
#include "bench/evaluate/emulation.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/emulated_communicator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "kernels/emulated/emulated_operators.hpp"
#include "tests/bench/training/emulated/compared_lanes.hpp"
#include "tests/bench/training/mixtures/emulated_exchanges.hpp"
#include "tests/bench/training/support/emulated_step.hpp"

namespace plumbline::training::lanes_emulated_time_test {
namespace {

/// Layers wide enough to hide some of their messages.
RunConfig dense(const Layout& layout, const char* schedule = "1f1b") {
  RunConfig config;
  config.model = small_qwen2();
  widen(config.model, 4, 8192, 16);
  config.batch.seq_length = config.model.position.max = 4096;
  config.batch.global_batch_size = 4 * layout.data;
  config.numerics.precision = DType::bf16;
  set_emulated(config);
  config.parallel.pp.schedule = schedule;
  config.parallel.sequence_parallel = layout.tensor > 1;
  config.measure.warmup_steps = 1;
  config.measure.steps = 1;
  set_layout(config, layout);
  return config;
}

RunConfig tensor(int ranks, bool overlap, const char* schedule = "1f1b") {
  RunConfig config = dense({ranks, 1, 1}, schedule);
  config.parallel.tp.comm_overlap = overlap;
  return config;
}

RunConfig data(const Layout& layout, int zero, bool reduce, bool gather, const char* schedule = "1f1b",
               int secondary_shards = 1) {
  RunConfig config = dense(layout, schedule);
  config.parallel.dp.zero_stage = zero;
  config.parallel.dp.hpz_partition_size = secondary_shards;
  config.parallel.dp.overlap_grad_reduce = reduce;
  config.parallel.dp.overlap_param_gather = gather;
  return config;
}

/// Pairs of neighbours have the same keys and values, whose gradients they add layer by layer.
RunConfig shared_heads(int ranks) {
  RunConfig config = tensor(ranks, true);
  config.model.kv_heads = ranks / 2;
  return config;
}

RunConfig offloaded(const Layout& layout, int layers) {
  RunConfig config = dense(layout);
  config.offload.num_layers = layers;
  return config;
}

RunConfig ring(int ranks) {
  RunConfig config = dense({1, 1, 1});
  config.batch = {.seq_length = 16384, .micro_batch_size = 1, .global_batch_size = 2};
  config.model.position.max = config.batch.seq_length;
  config.model.kv_heads = 4;
  config.parallel.world_size = config.parallel.context = ranks;
  config.parallel.cp.comm_type = CpCommType::p2p;
  return config;
}

RunConfig pairs(const char* schedule, const Layout& layout, int zero, bool overlap = true) {
  RunConfig config = narrow_deepseek(schedule, layout, zero);
  config.parallel.ep.overlap_comm = overlap;
  return config;
}

RunConfig shared_expert(const char* schedule, const Layout& layout, int zero) {
  RunConfig config = narrow_deepseek(schedule, layout, zero);
  config.model.mixture.shared = 2048;
  config.parallel.sequence_parallel = layout.tensor > 1;
  config.parallel.ep.shared_expert_overlap = true;
  return config;
}

struct Case {
  const char* name;
  RunConfig config;
};
std::vector<Case> cases_of(int ranks) {
  std::vector<Case> cases = {
      {"tensor ranks", tensor(ranks, false)},
      {"tp_comm_overlap", tensor(ranks, true)},
      {"tp_comm_overlap, split backward", tensor(ranks, true, "zb-h1")},
      {"tp_comm_overlap, shared heads", shared_heads(ranks)},
      {"ring of a sequence", ring(ranks)},
  };
  for (int zero = 0; zero <= 3; ++zero) {
    for (const bool overlap : {false, true})
      cases.push_back({"data ranks", data({1, 1, ranks}, zero, overlap, zero == 3 && overlap)});
  }
  cases.push_back({"overlap_param_gather", data({1, 1, ranks}, 1, true, true)});
  cases.push_back({"overlap_param_gather", data({1, 1, ranks}, 2, false, true)});
  if (ranks == 2) {
    cases.push_back({"offloaded layers", offloaded({1, 1, 2}, 3)});
    cases.push_back({"offloaded layers", offloaded({2, 1, 1}, 2)});
    cases.push_back({"offloaded layers of two stages", offloaded({1, 2, 1}, 1)});
    cases.push_back({"experts", pairs("1f1b", {1, 1, 2}, 0, false)});
    cases.push_back({"pairs", pairs("1f1b", {1, 1, 2}, 0)});
    cases.push_back({"pairs", pairs("1f1b", {1, 1, 2}, 2)});
    cases.push_back({"pairs", pairs("dualpipev", {1, 1, 2}, 1)});
    cases.push_back({"shared expert", shared_expert("1f1b", {1, 1, 2}, 0)});
    cases.push_back({"shared expert", shared_expert("zb-h1", {1, 1, 2}, 2)});
  } else {
    cases.push_back({"secondary shards", data({1, 1, 4}, 3, true, true, "1f1b", 2)});
    cases.push_back({"secondary shards", data({1, 1, 4}, 3, false, false, "zb-h1", 2)});
    cases.push_back({"two stages", data({1, 2, 2}, 0, true, false)});
    cases.push_back({"two stages", data({1, 2, 2}, 1, true, true)});
    cases.push_back({"two stages", data({1, 2, 2}, 3, true, true, "zb-h1")});
    cases.push_back({"pairs of two stages", pairs("dualpipe", {1, 2, 2}, 1)});
    cases.push_back({"pairs of two stages", pairs("1f1b", {1, 2, 2}, 1)});
    cases.push_back({"shared expert, two stages", shared_expert("1f1b", {1, 2, 2}, 1)});
    cases.push_back({"shared expert, tensor ranks", shared_expert("1f1b", {2, 1, 2}, 1)});
  }
  return cases;
}

/// The largest difference of a begin or end of an action of any rank.
Seconds apart(const Trace& predicted, const Trace& emulated) {
  Seconds most;
  for (std::size_t rank = 0; rank < predicted.ranks.size(); ++rank) {
    EXPECT_EQ(predicted.ranks[rank].size(), emulated.ranks[rank].size());
    for (std::size_t i = 0; i < std::min(predicted.ranks[rank].size(), emulated.ranks[rank].size()); ++i) {
      const Event& a = predicted.ranks[rank][i];
      const Event& b = emulated.ranks[rank][i];
      EXPECT_EQ(to_string(a.action), to_string(b.action));
      most.value =
          std::max({most.value, std::abs((a.start - b.start).value), std::abs((a.end - b.end).value)});
    }
  }
  return most;
}

class NotedOrigin final : public StepObserver {
 public:
  void step_ends(Seconds origin, std::vector<Event>& /*events*/, Seconds& /*tensor*/) override {
    value = origin;
  }
  Seconds value;
};

struct Emulated {
  TrainingResult result;
  std::vector<LaneSpan> lanes;  // of this rank, every span
};

Emulated emulate_with_lanes(const RunConfig& config, const Schedule& schedule,
                            const HardwareProfile& hardware) {
  MpiCommunicator control(config.layout());
  EmulatedClock clock = EmulatedClock::of_virtual_time();
  LaneNotes notes;
  NotedOrigin origin;
  StepObservers observers;
  observers.add(&notes);
  observers.add(&origin);
  EmulatedCommunicator communicator(config.layout(), clock, emulated_links(hardware, config.layout()),
                                    &notes);
  const auto operators = make_emulated_operators(clock, emulated_call_time(config, hardware));
  const auto host = emulated_host_lane(clock, emulated_host_copies(hardware), &notes);
  Emulated emulated;
  emulated.result = train(config, schedule, *operators, communicator, control, untouched_memory(), {},
                          &observers, {}, {}, host.get());
  notes.add_lanes(origin.value, emulated.lanes);
  return emulated;
}

TEST(LanesOnEmulatedDevices, AreWhereTheyWerePredicted) {
  const int ranks = world_ranks();
  const int rank = world_rank();
  for (const Case& c : cases_of(ranks)) {
    const RunConfig& config = c.config;
    const ParallelConfig& parallel = config.parallel;
    const std::string name =
        fmt::format("{}, {} ZeRO-{} overlap_grad_reduce {}", c.name, parallel.pp.schedule,
                    parallel.dp.zero_stage, parallel.dp.overlap_grad_reduce.value_or(true));
    SCOPED_TRACE(name);
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    HardwareProfile hardware = load_hardware(config.machine.hardware);
    if (parallel.dp.hpz_partition_size > 1) hardware.accelerator()->constants.network.gpus_per_node = 2;
    const Schedule schedule = schedule_for(config);
    const Prediction prediction = predict(config, schedule, hardware);
    const Trace trace = simulate(schedule, prediction.costs);
    constexpr double kEverySpan = 1e30;
    const auto lanes = lanes_of(schedule, trace, action_lanes(config, schedule, hardware), false, kEverySpan);
    const Emulated emulated = emulate_with_lanes(config, schedule, hardware);
    const double step = emulated.result.step_times.front().value;
    const Seconds actions = apart(trace, emulated.result.trace);
    if (rank == 0)
      fmt::print("{}: step {:.1f} us (predicted {:.1f}), actions apart by {:.1f}\n", name, 1e6 * step,
                 1e6 * prediction.time.step.value, 1e6 * actions.value);
    EXPECT_LT(actions.value, 0.02 * step);
    const LaneSums sums = lane_sums(schedule, action_lanes(config, schedule, hardware));
    for (std::size_t place = 0; place < kLanes; ++place) {
      const LaneTimes& measured = emulated.result.lane_sums[place];
      EXPECT_NEAR((measured.time - sums[place].time).value, 0, 1e-3 * step) << lane_name(lane_at(place));
      EXPECT_NEAR((measured.exposed - sums[place].exposed).value, 0, 0.01 * step)
          << lane_name(lane_at(place));
    }
    const Coordinates at = config.layout().coordinates(rank);
    if (at.tensor > 0 || at.data > 0)
      continue;  // in overlapped products ranks begin with blocks of their own
    const auto pipeline = static_cast<std::size_t>(at.pipeline);
    const std::vector<ComparedLane> compared = compare_lanes(lanes[pipeline], emulated.lanes);
    for (const ComparedLane& lane : compared) {
      if (rank == 0) fmt::print("{}\n", to_string(lane));
      EXPECT_EQ(lane.measured, lane.predicted) << to_string(lane);
      EXPECT_LT(lane.apart.value, 0.02 * step) << to_string(lane);
      EXPECT_NEAR((lane.measured_wait - lane.predicted_wait).value, 0, 0.01 * step) << to_string(lane);
    }
  }
}

}  // namespace
}  // namespace plumbline::training::lanes_emulated_time_test
