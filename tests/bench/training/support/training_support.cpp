#include "tests/bench/training/support/training_support.hpp"

#include <gtest/gtest.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cmath>

#include "bench/plan/plan.hpp"
#include "bench/training/trainer/host_values.hpp"
#include "bench/training/trainer/measured_run.hpp"
#include "bench/training/trainer/step_data.hpp"
#include "bench/training/weights/weights.hpp"
#include "core/config/compatibility.hpp"
#include "core/config/config_checks.hpp"
#include "core/files/safetensors.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::training {

int world_ranks() {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

SliceReader lively_weights(std::uint64_t seed) {
  const SliceReader normal = random_weights(seed, 0.08);
  return [normal](const Parameter& parameter, const Slice& slice, float* out, std::int64_t stride) {
    Parameter as_normal = parameter;
    as_normal.fill = Fill::normal;
    normal(as_normal, slice, out, stride);
    if (parameter.fill != Fill::ones) return;
    for (std::int64_t row = 0; row < slice.rows; ++row) {
      for (std::int64_t col = 0; col < slice.cols; ++col) out[row * stride + col] += 1.0F;
    }
  };
}

std::vector<Layout> layouts_of(int ranks) {
  std::vector<Layout> all;
  for (int tensor = 1; tensor <= ranks; tensor *= 2) {
    for (int pipeline = 1; tensor * pipeline <= ranks; pipeline *= 2) {
      if (ranks % (tensor * pipeline) == 0) all.push_back({tensor, pipeline, ranks / (tensor * pipeline)});
    }
  }
  return all;
}

void set_layout(RunConfig& config, const Layout& layout) {
  config.parallel.world_size = layout.world();
  config.parallel.tensor = layout.tensor;
  config.parallel.pipeline = layout.pipeline;
}

bool modules_fit(const RunConfig& config) {
  const auto rows = compatibility_rows();
  return std::none_of(rows.begin(), rows.end(), [&](const CompatibilityRow& row) {
    return row.key == "recompute_modules" && refusal_of(row, config);
  });
}

void set_recomputation(RunConfig& config, const Recomputation& recomputation) {
  config.recompute.granularity = recomputation.granularity;
  config.recompute.num_layers = recomputation.layers;
  config.recompute.modules = kCoreAttention;
  if (recomputation.granularity != Recompute::selective) return;
  RecomputeModules fitting;
  for (const RecomputeModuleName& module : kRecomputeModules) {
    config.recompute.modules = RecomputeModules();
    config.recompute.modules.*module.member = recomputation.modules.*module.member;
    if (modules_fit(config)) fitting.*module.member = recomputation.modules.*module.member;
  }
  config.recompute.modules = fitting == RecomputeModules() ? kCoreAttention : fitting;
}

void set_dropout(RunConfig& config, const Dropouts& dropout) {
  config.numerics.hidden_dropout = dropout.hidden;
  config.numerics.attention_dropout = dropout.attention;
}

ModelConfig small_qwen2() {
  ModelConfig model;
  model.name = "small-qwen2";
  model.architecture = "qwen2";
  model.layers = 8;
  model.hidden = 64;
  model.heads = 8;
  model.kv_heads = 2;
  model.head_dim = 8;
  model.ffn = 96;
  model.vocab = 203;
  model.position.max = 64;
  model.norms.epsilon = 1e-6;
  model.rotary.theta = 10000;
  model.biases.qkv = true;
  model.embedding.tied = true;
  return model;
}

ModelConfig small_gpt2() {
  ModelConfig model = small_qwen2();
  model.name = "small-gpt2";
  model.architecture = "gpt2";
  model.kv_heads = model.heads;
  model.ffn = 4 * model.hidden;
  model.norms.kind = Norm::layer;
  model.norms.epsilon = 1e-5;
  model.activation = Activation::gelu;
  model.position.kind = Positions::learned;
  model.biases.linear = true;
  return model;
}

ModelConfig small_mixture(bool normalized) {
  ModelConfig model = small_qwen2();
  model.architecture = normalized ? "mixtral" : "qwen3_moe";
  model.biases.qkv = false;
  model.norms.qk = !normalized;
  model.embedding.tied = false;
  model.ffn = 16;
  model.mixture = {7, 2, normalized};
  return model;
}

ModelConfig small_deepseek(bool latent) {
  ModelConfig model = small_mixture(true);
  model.architecture = latent ? "deepseek_v3" : "glm4_moe";
  model.mixture.experts = 8;
  model.mixture.top_k = 3;
  model.mixture.shared = 24;
  model.mixture.shared_gated = false;
  model.mixture.first_dense = 3;
  model.mixture.dense_ffn = 40;
  model.mixture.scores = RouterScores::sigmoid;
  model.mixture.groups = 4;
  model.mixture.chosen_groups = 2;
  model.mixture.routed_scale = 1.5;
  model.mixture.expert_bias = true;
  if (!latent) return model;
  model.kv_heads = model.heads;
  model.latent = {20, 18, 10, 6, 12};
  model.head_dim = 16;
  model.rotary.dim = 6;
  model.rotary.pairs = RotaryPairs::neighbours;
  return model;
}

StepResult one_step(const RunConfig& config, Communicator& communicator) {
  return one_step(config, schedule_for(config), communicator);
}

std::vector<RoutedTokens> gather_routing(const std::vector<ExpertLoad>& loads, const ModelConfig& model,
                                         Communicator& communicator) {
  std::vector<std::int32_t> mine;
  for (const ExpertLoad& load : loads) {
    mine.insert(mine.end(), {load.copy, load.layer, load.microbatch});
    mine.insert(mine.end(), load.tokens.begin(), load.tokens.end());
  }
  const auto experts = static_cast<std::ptrdiff_t>(model.mixture.experts);
  const std::vector<std::int64_t> sizes = from_every_rank(communicator, std::int64_t{std::ssize(mine)});
  std::vector<RoutedTokens> routing;
  for (int rank = 0; rank < communicator.layout().world(); ++rank) {
    if (communicator.layout().coordinates(rank).tensor != 0 && !communicator.layout().folds_experts())
      continue;  // tensor ranks route alike
    std::vector<std::int32_t> numbers = mine;
    numbers.resize(static_cast<std::size_t>(sizes[static_cast<std::size_t>(rank)]));
    broadcast_values(communicator, rank, numbers);
    for (auto at = numbers.begin(); at != numbers.end(); at += 3 + experts)
      routing.push_back({at[0], at[1], static_cast<std::uint32_t>(at[2]), {at + 3, at + 3 + experts}});
  }
  return routing;
}

namespace {

SliceReader weights_of(const RunConfig& config) {
  const SliceReader lively = lively_weights(config.measure.seed);
  const FilesConfig& files = config.files;
  return with_adapters(files.weights.empty() ? lively : checkpoint_weights(files.weights, config.model),
                       files.lora_weights.empty() ? lively : adapter_weights(config));
}

StepResult last_step_with(Operators& operators, const RunConfig& config, const Schedule& schedule, int steps,
                          const SliceReader& weights, Communicator& communicator) {
  Arena arena(config.machine.memory_budget, host_memory());
  arena.spoil_released();
  RankStages stages(config, schedule, operators, communicator, arena);
  load_weights(stages, weights);
  if (config.distillation.teacher) {
    load_teacher_weights(
        stages, config.distillation.teacher_weights.empty()
                    ? lively_weights(config.measure.seed + 1)
                    : checkpoint_weights(config.distillation.teacher_weights, *config.distillation.teacher));
  }
  const Coordinates at = communicator.layout().coordinates(communicator.rank());
  const StepData data(config, at.data);
  StepResult result;
  for (int step = 0; step < steps; ++step) {
    stages.keep_gradients(step + 1 == steps);
    const StepTokens tokens = data.step(step);
    stages.use_conversations(tokens.conversations);
    stages.start_step(tokens.inputs.data(), tokens.targets.data(), tokens.counted, tokens.ahead);
    const Traffic before = communicator.traffic();
    execute(schedule, stages, communicator, communicator.now(),
            config.parallel.effective_overlap_p2p_comm() ? Receives::ahead : Receives::in_their_turn);
    result.traffic = difference(communicator.traffic(), before);
  }
  for (const double share : from_every_rank(communicator, at.tensor == 0 ? stages.loss() : 0)) {
    result.loss += share;
  }
  for (const double share : stages.module_losses()) {
    double& loss = result.module_losses.emplace_back();
    for (const double each : from_every_rank(communicator, at.tensor == 0 ? share : 0)) loss += each;
  }
  result.gradient_norm = stages.gradient_norm();
  gather_weights(stages, Gathered::gradients,
                 [&](NamedTensor&& whole) { result.gradients[whole.name] = std::move(whole.values); });
  result.memory =
      from_every_rank(communicator, MeasuredMemory{arena.at_peak(), stages.host_peak(), arena.reserved()});
  result.samples = gather_samples(schedule, stages.samples(), communicator);
  result.routing = gather_routing(stages.expert_load(), config.model, communicator);
  if (config.distillation.teacher)
    result.teacher_routing =
        gather_routing(stages.teacher()->expert_load, *config.distillation.teacher, communicator);
  return result;
}

}  // namespace

StepResult last_step(const RunConfig& config, const Schedule& schedule, int steps,
                     Communicator& communicator) {
  const auto operators = make_cpu_operators();
  return last_step_with(*operators, config, schedule, steps, weights_of(config), communicator);
}

StepResult one_step(const RunConfig& config, Operators& operators, Communicator& communicator) {
  return last_step_with(operators, config, schedule_for(config), 1, weights_of(config), communicator);
}

StepResult one_step(const RunConfig& config, const SliceReader& weights, Communicator& communicator) {
  const auto operators = make_cpu_operators();
  return last_step_with(*operators, config, schedule_for(config), 1, weights, communicator);
}

StepResult one_step(const RunConfig& config, const Schedule& schedule, Communicator& communicator) {
  return last_step(config, schedule, 1, communicator);
}

StepResult last_step(const RunConfig& config, int steps, Communicator& communicator) {
  return last_step(config, schedule_for(config), steps, communicator);
}

std::map<std::string, double> errors_of(const Tensors& reference, const Tensors& found) {
  std::map<std::string, double> errors;
  if (reference.size() != found.size()) errors["(other tensors)"] = INFINITY;
  for (const auto& [name, expected] : reference) {
    double& error = errors[name] = INFINITY;
    const auto at = found.find(name);
    if (at == found.end() || at->second.size() != expected.size()) continue;
    double largest = 0;
    double difference = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
      const double here = std::abs(static_cast<double>(expected[i]) - at->second[i]);
      difference = std::isnan(here) ? INFINITY : std::max(difference, here);
    }
    error = difference == 0 ? 0 : difference / largest;
  }
  return errors;
}

Tensors tensors_of(const std::string& path) {
  const TensorFile file(path);
  Tensors tensors;
  for (const std::string& name : file.names()) {
    const StoredTensor& tensor = file.get(name);
    for (std::int64_t i = 0; i < tensor.elements(); ++i) tensors[name].push_back(tensor.at(i));
  }
  return tensors;
}

void expect_gradients(const Tensors& reference, const Tensors& found, double tolerance,
                      const std::string& what) {
  std::string worst;
  EXPECT_LE(largest_error(reference, found, worst), tolerance) << what << " " << worst;
}

void expect_step(const StepResult& alone, const StepResult& found, bool rounds, double rounded) {
  EXPECT_NEAR(found.loss / alone.loss, 1, rounds ? rounded : 1e-5);
  if (rounds) return;
  EXPECT_NEAR(found.gradient_norm / alone.gradient_norm, 1, 1e-5);
  expect_gradients(alone.gradients, found.gradients, 1e-5);
}

void expect_same_bits(const StepResult& one, const StepResult& other, const std::string& what) {
  EXPECT_EQ(one.loss, other.loss) << what;
  EXPECT_EQ(one.gradient_norm, other.gradient_norm) << what;
  EXPECT_TRUE(one.gradients == other.gradients) << what;
}

std::int64_t kept(const StepResult& step) {
  std::int64_t sum = 0;
  for (const auto& rank : step.samples) {
    for (const MemorySample& sample : rank) sum += sample.after[Category::activations].value;
  }
  return sum;
}

bool is_planned(const RunConfig& config) {
  if (why_invalid(config)) return false;
  try {
    schedule_for(config);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

double largest_error(const Tensors& reference, const Tensors& found, std::string& worst) {
  return largest_share(reference, found, 1, {}, worst);
}

double largest_share(const Tensors& reference, const Tensors& found, double tolerance,
                     const std::map<std::string, double>& rounding, std::string& worst) {
  double largest = 0;
  worst = "";
  for (const auto& [name, error] : errors_of(reference, found)) {
    const auto own = rounding.find(name);
    const double share = error / (own == rounding.end() ? tolerance : std::max(tolerance, own->second));
    if (share > largest) {
      largest = share;
      worst = name;
    }
  }
  return largest;
}

bool same(const Traffic& a, const Traffic& b) {
  const Traffic d = difference(a, b);
  bool zero = d.messages_sent == 0 && d.point_to_point_sent.value == 0;
  for (const GroupTraffic& g : d.groups) {
    zero = zero && g.calls == 0 && g.all_reduced.value == 0 && g.all_gathered.value == 0 &&
           g.reduce_scattered.value == 0 && g.broadcast.value == 0 && g.exchanged.value == 0;
  }
  return zero;
}

}  // namespace plumbline::training
