// A record with every field set, for tests.
#pragma once

#include <cstdint>

#include "bench/record/record.hpp"

namespace plumbline {

inline StepTime sample_time(double step) {
  return {{step}, 0.25, 0.2, {step / 2}, {0.01}, {0.02}, {0.03}, {}, {0.04}};
}

/// Predicted 10 % too much time and 1 % too much memory.
inline Record sample_record(const std::string& id) {
  Record record;
  record.id = id;
  record.config = {
      {"model", "qwen2.5-0.5b"},   {"tensor_model_parallel_size", "2"}, {"pipeline_model_parallel_size", "1"},
      {"data_parallel_size", "1"}, {"sequence_parallel", "false"},      {"learning_rate", "0.0001"}};
  record.machine = {"host", "a CPU", "", {{"plumbline", "0.1.0"}}, {{"OMP_NUM_THREADS", "1"}}};
  record.model = {494'032'768, 494'032'768, 0, 3.1e9};
  RankMemoryReport rank;
  for (int i = 0; i < kCategories; ++i)
    rank.bytes[static_cast<Category>(i)] = {std::int64_t{1'000'000} * (i + 1)};
  MeasurementReport measured;
  measured.memory = MemoryReport::of({rank, rank});
  measured.memory.ranks[1].rank = 1;
  measured.memory.ranks[1].at = "1F7";
  measured.memory.ranks[1].holders = {{"qkv", Category::activations, {4'000'000}, 8}};
  Traffic traffic;
  traffic.messages_sent = 16;
  traffic.point_to_point_sent = {1 << 20};
  traffic.of(Group::data) = {3, {1000}, {2000}, {4000}, {8}};
  measured.traffic = traffic;
  measured.time = sample_time(0.5);
  measured.throughput = {1000, 500, 0.1, 0.2, 0.5, 0.25};
  measured.samples = 3;
  measured.step_min = {0.45};
  measured.step_max = {0.6};
  measured.loss = 9.5;
  measured.losses = {9.75, 9.5};
  measured.module_losses = {10.5};
  measured.device_reserved = {40'000'000};
  DeviceMemoryRow row{
      0, {36'000'000}, Bytes{40'000'000}, Bytes{400'000}, {30'000}, {2'000}, {100}, {}, {}, {}, 2};
  row.total = row.sum();
  row.device_used = row.total * 2;
  measured.device_memory = DeviceMemoryReport{"nvml", {80'000'000}, {row, row}};
  measured.device_memory->ranks[1].rank = 1;
  measured.device_memory->ranks[1].context.reset();  // it cannot be had everywhere
  measured.gpu = GpuReport{
      {{"attention_backward bf16", "own kernels", "built without cuDNN"}, {"messages", "P2P/CUMEM", ""}},
      GpuState{12, 1410, 1980, 2619, 512.5, 701, 64, {"sw_power_cap"}}};
  measured.energy = EnergyReport{150, 512.5, 331.25, 0.33, {}};
  measured.steps = {{{0.5}, 0.02, 0.0, 0.01, 3, 2.6e9}, {{0.45}}, {{0.6}, 0.03}};
  measured.disturbance = {0.03, 0.0, 0.01, false, 1};
  measured.rounds = 2;
  measured.expert_load = {{3, {10, 6, 2}, {0, 0, 0}}};
  measured.lanes.emplace();
  add(*measured.lanes, {Group::tensor, {0}, {0.25}, {0.125}});
  add(*measured.lanes, {std::nullopt, {0}, {0.5}, {}});
  measured.checkpoints =
      CheckpointReport{10, true, 2, 1, {12'000'000}, {6'000'000}, {0.01}, {0.02}, {0.1}, 20, {0.3}};
  record.measurement = measured;
  record.probed = ProbedReport{{1.1, 1, 1, 1}, {1.3, 1, 1, 1}, {1.2, 1, 1, 1}, 1.25, sample_time(0.52)};
  PredictionReport predicted{true,    measured.memory,       sample_time(0.55), measured.throughput,
                             traffic, measured.device_memory};
  predicted.device_memory->ranks[0].reserved.reset();
  predicted.device_memory->ranks[0].margin = Bytes{720'000};
  predicted.memory.peak.value += predicted.memory.peak.value / 100;
  predicted.time.bubble_fraction = 0.23;
  predicted.step_interval = StepInterval{{0.5}, {0.6}};
  predicted.comparable_step = StepInterval{{0.45}, {0.75}};
  predicted.verdict = "tight";
  predicted.chance = 0.125;
  predicted.expert_load = {{3, {6, 6, 6}, {0, 0, 0}}};
  predicted.lanes.emplace();
  add(*predicted.lanes, {Group::expert, {0}, {0.25}, {0.25}});
  record.prediction = predicted;
  record.error = compare(predicted, measured, record.probed);
  record.baseline = BaselineReport{"base"};
  RecoveryReport recovery;
  recovery.mtbf = {30};
  recovery.seed = 7;
  recovery.begun_step = 5;
  recovery.steps = 40;
  recovery.replacement = {9};
  recovery.total = {20};
  recovery.useful = {12};
  recovery.stalls = {1};
  recovery.lost = {3};
  recovery.detect = {0.5};
  recovery.restart = {3.5};
  recovery.waiting = {0.25};
  recovery.missing = {-0.25};
  recovery.goodput = 0.6;
  recovery.costs = {{0.3}, {0.1}, {0.2}, {3.5}, {0.5}, {}, {{1, 4, {0.5}}}};
  recovery.predicted = {0.65, 0.5, 0.7, 0.62, {{0.25}, {0.1}, {0.2}, {3}, {0.5}, {1.25}}};
  recovery.failures = {{"kill", 1, {4}, {0.5}, {3.5}, {3}, 9, 10, {0.25}, 1},
                       {"disk", 0, {9}, {}, {}, {}, 0, 0, {}, 2},
                       {"return", 0, {12}, {}, {}, {}, 0, 20, {}, 2}};
  recovery.saves = {{10, {1}, {0.1}, {0.2}}, {20, {12}, {0.1}, {0.25}}};
  record.recovery = recovery;
  return record;
}

}  // namespace plumbline
