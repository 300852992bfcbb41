#include "analysis/published/published_formulas.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "analysis/hardware/hardware.hpp"
#include "analysis/memory/framework_memory.hpp"
#include "analysis/published/published_readers.hpp"
#include "analysis/simulate/simulator.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/time/operator_time.hpp"
#include "analysis/time/stage/time_model.hpp"
#include "analysis/work/framework_list.hpp"

namespace plumbline {
namespace {

using Rows = std::vector<ComparedRow>;

/// The models of arXiv:2205.05198 table 3.
RunConfig korthikanti_model(const PublishedRow& row) {
  const auto gpt = [](std::int64_t layers, std::int64_t hidden, std::int64_t heads, int pipeline, int chunks,
                      int micro_batch) {
    RunConfig config = gpt_run(layers, hidden, heads, 51200, 2048, "megatron-2022");
    config.parallel.tensor = 8;
    config.parallel.pipeline = pipeline;
    config.parallel.world_size = 8 * pipeline;
    config.parallel.pp.virtual_chunks = chunks;
    config.batch.micro_batch_size = config.batch.global_batch_size = micro_batch;
    return config;
  };
  const std::string& name = row.repeated("model");
  if (name == "22B") return gpt(48, 6144, 64, 1, 1, 4);
  if (name == "175B") return gpt(96, 12288, 96, 8, 3, 1);
  if (name == "530B") return gpt(105, 20480, 128, 35, 3, 1);
  if (name == "1T") return gpt(128, 25600, 160, 64, 1, 1);
  row.fail("model", "22B, 175B, 530B or 1T");
}

RunConfig with(RunConfig config, bool sequence_parallel, Recompute recompute) {
  config.parallel.sequence_parallel = sequence_parallel;
  config.recompute.granularity = recompute;
  return config;
}

StageShape shape_of(const RunConfig& config, const Profiles& profiles) {
  StageShape shape = stage_shapes(config, 1).front();
  shape.software = &profiles.generation(config.machine.software);
  shape.traits = kFrameworkTraits;
  return shape;
}

double layer_bytes(const RunConfig& config, const Profiles& profiles) {
  return static_cast<double>(framework_layer_bytes(shape_of(config, profiles)));
}

/// Weights of one layer's matrix products: norms and biases, a few parts in 10^4, are not counted in papers.
double layer_parameters(const ModelConfig& model) {
  return 12 * static_cast<double>(model.hidden) * static_cast<double>(model.hidden);
}

/// Figure 7: activations per layer relative to plain tensor parallelism. "Full" recomputes everything but the
/// layer's input, which it does not split.
void activation_percent(const PublishedRow& row, const Profiles& profiles, const ScheduleMakers&,
                        Rows& rows) {
  const RunConfig config = korthikanti_model(row);
  const double whole = layer_bytes(config, profiles);
  const std::array<std::pair<const char*, RunConfig>, 4> techniques = {
      {{"seq_pct", with(config, true, Recompute::none)},
       {"sel_pct", with(config, false, Recompute::selective)},
       {"seqsel_pct", with(config, true, Recompute::selective)},
       {"full_pct", with(config, false, Recompute::full)}}};
  for (const auto& [column, variant] : techniques) {
    if (!row.has(column)) continue;
    rows.push_back({fmt::format("{} {}", row.repeated("model"), column), "activation_percent",
                    100 * layer_bytes(variant, profiles) / whole, row.number(column), ""});
  }
}

/// Figure 1: memory of the fullest rank in GiB, interleaved pipelines hold P·(1 + (P-1)/(P·V))
/// micro-batches.
void memory_gib(const PublishedRow& row, const Profiles& profiles, const ScheduleMakers&, Rows& rows) {
  const RunConfig config = korthikanti_model(row);
  const ParallelConfig& parallel = config.parallel;
  const std::string& name = row.repeated("model");
  const auto layers = static_cast<double>(config.model.layers);
  // The figure counts the parameters of the transformer layers.
  const double parameters = layers * layer_parameters(config.model) / (parallel.tensor * parallel.pipeline);
  if (row.has("params_optimizer_gib")) {
    const double states = framework_state_bytes(profiles.generation("megatron-2022"), parameters, 1, 0);
    rows.push_back({name + " parameters and optimizer", "state_bytes", states,
                    row.number("params_optimizer_gib") * kBytesPerGiB, ""});
  }
  const int chunks = parallel.pp.virtual_chunks;
  const double in_flight =
      layers * (1 + (chunks > 1 ? (parallel.pipeline - 1.0) / (parallel.pipeline * chunks) : 0.0));
  const std::array<std::pair<const char*, RunConfig>, 2> techniques = {
      {{"activations_none_gib", config},
       {"activations_seq_sel_gib", with(config, true, Recompute::selective)}}};
  for (const auto& [column, variant] : techniques) {
    if (!row.has(column)) continue;
    rows.push_back({name + " " + column, "activation_bytes", in_flight * layer_bytes(variant, profiles),
                    row.number(column) * kBytesPerGiB, ""});
  }
}

HardwareProfile a100(const Profiles& profiles) {
  HardwareProfile hardware = *find_hardware_preset("a100-sxm-80gb");
  hardware.accelerator()->constants = profiles.machine("a100-sxm-80gb");
  return hardware;
}

Seconds device_time(const UnitWork& work, const HardwareProfile& hardware, const Load& load) {
  Seconds sum;
  for (const OperatorCall& call : work.calls) sum += time_of(call, hardware, load);
  return sum;
}

/// Table 4: one layer of the 22B model.
void layer_22b(const PublishedRow& row, const Profiles& profiles, const ScheduleMakers&, Rows& rows) {
  RunConfig config = gpt_run(48, 6144, 64, 51200, 2048, "megatron-2022");
  config.parallel.tensor = config.parallel.world_size = 8;
  config.batch.micro_batch_size = config.batch.global_batch_size = 4;
  const std::string& name = row.repeated("experiment");
  config.parallel.sequence_parallel = name.find("sequence") != std::string::npos;
  if (name.find("full") != std::string::npos) config.recompute.granularity = Recompute::full;
  if (name.find("selective") != std::string::npos) config.recompute.granularity = Recompute::selective;
  const StageShape shape = shape_of(config, profiles);
  UnitWork forward;
  UnitWork backward;
  framework_layer(shape, LayerPass::forward, 0, false, forward);
  framework_recomputation(shape, 0, backward);
  framework_layer(shape, LayerPass::backward_input, 0, true, backward);
  framework_layer(shape, LayerPass::backward_weight, 0, true, backward);
  Load load;
  load.layout = config.layout();
  const HardwareProfile hardware = a100(profiles);
  if (row.has("forward_ms")) {
    rows.push_back({name + ", forward", "layer_s", device_time(forward, hardware, load).value,
                    row.number("forward_ms") / 1e3, ""});
  }
  if (row.has("backward_ms")) {
    rows.push_back({name + ", backward", "layer_s", device_time(backward, hardware, load).value,
                    row.number("backward_ms") / 1e3, ""});
  }
}

/// ZeRO, arXiv:1910.02054 table 1: decimal GB of model states, 16 bytes per parameter unsharded.
void zero_memory(const PublishedRow& row, const Profiles& profiles, const ScheduleMakers&, Rows& rows) {
  const Software& software = profiles.generation("megatron-2021");
  const int replicas = row.integer("dp");
  constexpr std::array<std::pair<const char*, double>, 3> kModels = {
      {{"7.5B", 7.5e9}, {"128B", 128e9}, {"1T", 1e12}}};
  constexpr std::array<const char*, 3> kStages = {"_Pos", "_Pos+g", "_Pos+g+p"};
  for (const auto& [name, parameters] : kModels) {
    for (int stage = 1; stage <= 3; ++stage) {
      const std::string column = std::string(name) + kStages[static_cast<std::size_t>(stage - 1)];
      if (!row.has(column)) continue;
      rows.push_back({fmt::format("{} D{}", column, replicas), "state_bytes",
                      framework_state_bytes(software, parameters, replicas, stage), row.number(column) * 1e9,
                      ""});
    }
  }
}

/// The stage-times artifact of arXiv:2411.05288: measured times of every stage in, iteration time out.
void stage_times(const PublishedRow& row, const Profiles& profiles, const ScheduleMakers& make, Rows& rows) {
  const auto numbers = [&](const char* column) {
    std::vector<double> values;
    const std::string& text = row.repeated(column);
    for (const char* at = text.c_str(); *at != '\0';) {
      char* end = nullptr;
      const double value = std::strtod(at, &end);
      if (end == at) break;
      if (!(value >= 0 && value < 1e12)) row.fail(column, "times in microseconds");
      values.push_back(value * 1e-6);
      at = end;
    }
    return values;
  };
  const std::string& method = row.repeated("method");
  ScheduleNeed need;
  need.name = "1f1b";
  need.pipeline = row.integer("pp", 256);
  need.microbatches = row.integer("num_microbatches", 10'000);
  need.vocabulary = passes_named(method);
  const std::vector<double> forward = numbers("F_us_per_stage");
  const std::vector<double> backward = numbers("B_us_per_stage");
  const std::vector<double> output = numbers("S_us_per_stage(inferred label)");
  const std::vector<double> input = numbers("T_us_per_stage(inferred label)");
  const auto stages = static_cast<std::size_t>(need.pipeline);
  if (forward.size() != stages || backward.size() != stages || output.size() != stages ||
      input.size() != stages) {
    row.fail("F_us_per_stage", fmt::format("{} times in each of the four columns", stages));
  }
  RunConfig config =
      gpt_run(row.integer("layers", 10'000), row.integer("hidden"), row.integer("heads", 10'000),
              row.integer("vocab", 10'000'000), row.integer("seq", 1 << 22), "megatron-vocabulary");
  config.parallel.pipeline = config.parallel.world_size = need.pipeline;
  config.parallel.pp.vocab_parallel = need.vocabulary;
  config.batch.micro_batch_size = row.integer("micro_batch", 10'000);
  config.batch.global_batch_size = config.batch.micro_batch_size * need.microbatches;
  const HardwareProfile hardware = a100(profiles);
  const Software& software = profiles.generation("megatron-vocabulary");
  const RepeatedSchedule schedule = make.of_run(config);
  StepSimulation simulation(schedule);
  Costs costs = stage_costs(StepModel(config, schedule.once, software), simulation, hardware).costs;
  costs.vocabulary = {};  // part of the measured times
  const bool split = need.vocabulary != VocabPasses::none;
  // S has one of the output layer's three products with two barriers, two with one barrier.
  const double scores = need.vocabulary == VocabPasses::one_barrier ? 2.0 / 3 : 1.0 / 3;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    StageCosts& cost = costs.stages[stage];
    cost.forward.value = forward[stage];
    cost.backward.value = backward[stage];
    if (!split) continue;
    cost.vocab_forward.value = output[stage] * scores;
    cost.vocab_backward.value = output[stage] * (1 - scores);
    cost.input_forward.value = cost.input_backward.value = input[stage] / 2;
  }
  const double step =
      (simulate_makespan(make.alone(need, costs), costs) + costs.stages.front().optimizer).value;
  rows.push_back(
      {fmt::format("{} {}", method, config.model.vocab), "step_s", step, row.number("iter_ms") / 1e3, ""});
}

}  // namespace

RunConfig gpt_run(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocab,
                  std::int64_t sequence, const char* software) {
  RunConfig config;
  ModelConfig& model = config.model;
  model.name = "inline";
  model.architecture = "gpt2";
  model.layers = layers;
  model.hidden = hidden;
  model.heads = model.kv_heads = heads;
  model.head_dim = hidden / heads;
  model.ffn = 4 * hidden;
  model.vocab = vocab;
  model.position.max = sequence;
  model.norms.kind = Norm::layer;
  model.activation = Activation::gelu;
  model.position.kind = Positions::learned;
  model.biases.qkv = model.biases.linear = true;
  config.batch.seq_length = sequence;
  config.numerics.precision = DType::fp16;
  config.machine.hardware = "a100-sxm-80gb";
  config.machine.software = software;
  return config;
}

FormulaReader formula_reader(const PublishedTable& table) {
  // The column that holds the figures decides: a table may have any name.
  constexpr std::array<std::pair<std::string_view, FormulaReader>, 8> kReaders = {{
      {"seqsel_pct", activation_percent},
      {"activations_seq_sel_gib", memory_gib},
      {"overhead_pct", layer_22b},
      {"1T_Pos+g+p", zero_memory},
      {"F_us_per_stage", stage_times},
      {"8gpu_pct", vocabulary_scaling},
      {"bubble_ZB_H1", handcrafted_bubbles},
      {"activation", schedule_formulas},
  }};
  for (const auto& [column, reader] : kReaders) {
    if (std::find(table.columns.begin(), table.columns.end(), column) != table.columns.end()) return reader;
  }
  return nullptr;
}

}  // namespace plumbline
