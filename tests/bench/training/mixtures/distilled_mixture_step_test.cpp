// MoE students, MoE teachers, and both: loss and gradients equal those of a single rank and of PyTorch
// (tests/golden/distillation). Memory and traffic are as predicted for the actual routing of both models.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"
#include "core/run/solo_communicator.hpp"
#include "tests/bench/training/support/emulated_step.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::distilled_mixture_step_test {
namespace {

constexpr TokenDispatcher kSent = TokenDispatcher::alltoall;
constexpr TokenDispatcher kGathered = TokenDispatcher::allgather;

enum class Kind { dense, mixtral, shared, deepseek };

ModelConfig model_of(Kind kind, bool teacher) {
  ModelConfig model = small_qwen2();
  if (kind == Kind::deepseek) {
    model = small_deepseek(true);
  } else if (kind != Kind::dense) {
    model = small_mixture(kind == Kind::mixtral);
    model.mixture.experts = 8;
    if (kind == Kind::shared) {
      model.architecture = "qwen2_moe";
      model.norms.qk = false;
      model.biases.qkv = true;
      model.mixture.shared = 24;
    }
  }
  if (!teacher) return model;
  model.name = "small-teacher";
  model.embedding.tied = false;
  model.layers = 9;
  if (kind != Kind::deepseek) {
    model.hidden = 96;
    model.head_dim = 12;
  }
  if (kind != Kind::dense) model.mixture.top_k = 3;
  return model;
}

struct Case {
  Kind student, teacher;
  Layout layout;  // tensor, pipeline, data × context
  const char* schedule = "abeja";
  int expert = 1;
  int slices = 0;  // of an expert; 0: as tensor ranks
  TokenDispatcher dispatcher = TokenDispatcher::automatic;
  int zero = 0;
  Recompute recompute = Recompute::none;
  int context = 1;
  bool sequence = false;
  DType precision = DType::fp32;
  DistillationCache cache = DistillationCache::logits;
  double capacity = 0;
  LoadBalancing balance = LoadBalancing::aux_loss;
  bool hides_shared = false;
};
constexpr Case kCases[] = {
    // On one rank, whose experts are not spread.
    {Kind::mixtral, Kind::dense, {1, 1, 1}},
    {Kind::dense, Kind::deepseek, {1, 1, 1}, "nemo-2504"},
    {.student = Kind::shared,
     .teacher = Kind::deepseek,
     .layout = {1, 1, 1},
     .cache = DistillationCache::hidden},
    // An MoE student.
    {Kind::mixtral, Kind::dense, {1, 1, 2}, "abeja", 2, 0, kSent},
    {Kind::shared, Kind::dense, {1, 2, 1}, "bubble-fill"},
    {Kind::deepseek, Kind::dense, {1, 1, 2}, "nemo-2504", 2, 0, kGathered, 2, Recompute::full},
    {Kind::shared, Kind::dense, {2, 1, 1}, "abeja", 2, 1, kSent, 0, Recompute::selective, 1, true},
    {Kind::shared, Kind::dense, {1, 2, 2}, "nemo-13065", 2, 0, kSent, 1},
    // An MoE teacher.
    {Kind::dense, Kind::mixtral, {1, 1, 2}, "abeja", 2, 0, kSent},
    {Kind::dense, Kind::shared, {1, 1, 2}, "nemo-2504", 2, 0, kGathered, 3},
    {Kind::dense, Kind::deepseek, {2, 1, 1}, "abeja", 2, 1, kSent, 0, Recompute::full, 1, true},
    {Kind::dense, Kind::deepseek, {1, 2, 1}, "nemo-13065"},
    {Kind::dense, Kind::shared, {1, 1, 2}, "abeja", 2, 0, kSent, 1, Recompute::none, 2},
    {Kind::dense, Kind::mixtral, {1, 1, 2}, "abeja", 1, 2, kSent, 2},
    {Kind::dense, Kind::deepseek, {1, 2, 2}, "bubble-fill", 2, 0, kSent, 2},
    {Kind::dense, Kind::shared, {2, 1, 2}, "nemo-2504", 2, 0, kGathered, 3, Recompute::selective, 1, true},
    {.student = Kind::dense,
     .teacher = Kind::shared,
     .layout = {2, 1, 2},
     .expert = 4,
     .slices = 1,
     .dispatcher = kGathered,
     .sequence = true,
     .precision = DType::bf16,
     .cache = DistillationCache::hidden},
    // Both are.
    {Kind::mixtral, Kind::deepseek, {1, 1, 2}, "abeja", 2, 0, kSent, 3, Recompute::full},
    {Kind::deepseek, Kind::shared, {1, 1, 2}, "nemo-2504", 2, 0, kGathered, 2},
    {.student = Kind::mixtral,
     .teacher = Kind::shared,
     .layout = {2, 1, 1},
     .expert = 2,
     .slices = 1,
     .sequence = true},
    {.student = Kind::shared,
     .teacher = Kind::shared,
     .layout = {1, 1, 2},
     .expert = 2,
     .zero = 1,
     .hides_shared = true},
    {.student = Kind::mixtral, .teacher = Kind::shared, .layout = {1, 1, 2}, .expert = 2, .capacity = 0.9},
    {.student = Kind::shared, .teacher = Kind::mixtral, .layout = {1, 1, 1}, .capacity = 0.7},
    {Kind::shared, Kind::deepseek, {1, 2, 2}, "bubble-fill", 2, 0, kSent, 1, Recompute::selective},
    {Kind::deepseek, Kind::mixtral, {1, 2, 2}, "nemo-13065", 2, 0, kGathered, 2, Recompute::full},
    {Kind::shared, Kind::mixtral, {1, 1, 4}, "nemo-2504", 2, 0, kSent, 3, Recompute::none, 2},
    {Kind::mixtral, Kind::deepseek, {2, 2, 1}, "abeja", 1, 1, kSent, 0, Recompute::none, 1, true},
    {.student = Kind::mixtral,
     .teacher = Kind::shared,
     .layout = {1, 1, 4},
     .expert = 2,
     .zero = 1,
     .precision = DType::bf16},
};

RunConfig config_of(const Case& c) {
  RunConfig config;
  config.model = model_of(c.student, false);
  config.distillation.teacher = model_of(c.teacher, true);
  config.distillation.schedule = c.schedule;
  config.distillation.temperature = 1.5;
  config.distillation.lm_weight = 0.3;
  config.distillation.cache = c.cache;
  set_layout(config, c.layout);
  config.parallel.context = c.context;
  if (c.context > 1) config.parallel.cp.comm_type = CpCommType::all_gather;
  config.parallel.expert = c.expert;
  config.parallel.expert_tensor = c.slices;
  config.parallel.ep.token_dispatcher = c.dispatcher;
  config.parallel.sequence_parallel = c.sequence;
  config.parallel.dp.zero_stage = c.zero;
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.dp.bucket_size = 20'000;
  config.parallel.ep.shared_expert_overlap = c.hides_shared;
  config.recompute.granularity = c.recompute;
  config.recompute.num_layers = 2;
  config.numerics.precision = c.precision;
  if (config.model.mixture) {
    config.mixture.aux_loss_coeff = c.context > 1 ? 0 : 0.02;
    config.mixture.z_loss_coeff = 0.003;
    config.mixture.load_balancing = c.balance;
    config.mixture.capacity_factor = c.capacity;
  }
  config.batch.seq_length = 12;
  config.batch.global_batch_size = 8;
  config.measure.warmup_steps = 0;
  config.measure.steps = 1;
  return config;
}

StepResult alone(RunConfig config) {
  set_layout(config, {1, 1, 1});
  config.parallel.context = config.parallel.expert = 1;
  config.parallel.expert_tensor = 0;
  config.parallel.sequence_parallel = config.parallel.ep.shared_expert_overlap = false;
  config.parallel.dp.zero_stage = 0;
  config.recompute.granularity = Recompute::none;
  config.distillation.schedule = "nemo-2504";
  config.distillation.cache = DistillationCache::logits;
  SoloCommunicator solo;
  return one_step(config, solo);
}

TEST(DistilledMixtureStep, GradientsMemoryAndTrafficAreTheSameInEverySplit) {
  int compared = 0;
  for (const Case& c : kCases) {
    const RunConfig config = config_of(c);
    if (config.parallel.world_size != world_ranks()) continue;
    SCOPED_TRACE(fmt::format("student {} teacher {} ep{} etp{} tp{} pp{} dp{} cp{} {} zero{}",
                             static_cast<int>(c.student), static_cast<int>(c.teacher), c.expert, c.slices,
                             c.layout.tensor, c.layout.pipeline, c.layout.data, c.context, c.schedule,
                             c.zero));
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    ASSERT_EQ(why_unsupported(config).value_or(""), "");
    MpiCommunicator communicator(config.layout());
    const StepResult found = one_step(config, communicator);
    ++compared;
    expect_routed_memory(config, found);
    expect_routed_traffic(config, found, communicator.rank());
    if (communicator.rank() != 0) continue;
    expect_step(alone(config), found, c.precision == DType::bf16, 3e-2);
  }
  EXPECT_GT(compared, 1);
}

/// The student's keys of capacity, balance and biases apply to the trained model.
TEST(DistilledMixtureStep, ATeacherChoosesAsWithoutTheStudentsKeys) {
  if (world_ranks() > 1) GTEST_SKIP() << "one rank shows it";
  RunConfig config = config_of({.student = Kind::mixtral, .teacher = Kind::deepseek, .layout = {1, 1, 1}});
  SoloCommunicator solo;
  const StepResult plain = one_step(config, solo);
  config.mixture.capacity_factor = 0.5;
  config.mixture.load_balancing = LoadBalancing::seq_aux_loss;
  const StepResult limited = one_step(config, solo);
  EXPECT_NE(plain.loss, limited.loss);
  ASSERT_EQ(plain.teacher_routing.size(), limited.teacher_routing.size());
  ASSERT_FALSE(plain.teacher_routing.empty());
  for (std::size_t i = 0; i < plain.teacher_routing.size(); ++i)
    EXPECT_EQ(plain.teacher_routing[i].tokens, limited.teacher_routing[i].tokens);
  for (const StepResult* step : {&plain, &limited}) {
    for (const auto& [name, values] : step->gradients) EXPECT_FALSE(values.empty()) << name;
  }
}

/// A step leaves a teacher's weights, and its router biases, unchanged.
TEST(DistilledMixtureStep, LearnsForStepsFromATeacherThatStaysAsItIs) {
  const int ranks = world_ranks();
  if (ranks > 2) GTEST_SKIP() << "two ranks show it";
  RunConfig config = config_of({.student = Kind::shared,
                                .teacher = Kind::deepseek,
                                .layout = {1, 1, ranks},
                                .expert = ranks,
                                .zero = ranks - 1});
  config.optimizer.learning_rate = 0.02;
  config.mixture.bias_update_rate = MixtureConfig().bias_update_rate;
  MpiCommunicator communicator(config.layout());
  const StepResult first = last_step(config, 1, communicator);
  const StepResult later = last_step(config, 4, communicator);
  EXPECT_NE(first.loss, later.loss);
  if (communicator.rank() != 0) return;
  SoloCommunicator solo;
  RunConfig whole = config;
  set_layout(whole, {1, 1, 1});
  whole.parallel.expert = 1;
  whole.parallel.dp.zero_stage = 0;
  EXPECT_NEAR(last_step(whole, 4, solo).loss / later.loss, 1, 1e-4);
}

/// On devices that compute nothing experts have equally many rows, as predictions have it.
TEST(DistilledMixtureStep, TakesAsLongOnEmulatedDevicesAsPredicted) {
  const int ranks = world_ranks();
  if (ranks == 1) GTEST_SKIP() << "experts are spread over ranks";
  struct Emulated {
    Kind student, teacher;
    const char* schedule;
    int zero = 0;
    TokenDispatcher dispatcher = kSent;
  };
  for (const Emulated& e :
       {Emulated{Kind::mixtral, Kind::dense, "abeja"}, Emulated{Kind::dense, Kind::mixtral, "abeja"},
        Emulated{Kind::dense, Kind::shared, "nemo-2504", 2, kGathered},
        Emulated{Kind::mixtral, Kind::shared, "nemo-13065", 1},
        Emulated{Kind::shared, Kind::mixtral, "bubble-fill", 2},
        Emulated{Kind::mixtral, Kind::mixtral, "abeja", 3}}) {
    RunConfig config = config_of({.student = e.student, .teacher = e.teacher, .layout = {1, ranks / 2, 2}});
    config.parallel.expert = 2;
    config.parallel.ep.token_dispatcher = e.dispatcher;
    config.parallel.dp.zero_stage = e.zero;
    config.distillation.schedule = e.schedule;
    for (ModelConfig* model : {&config.model, &*config.distillation.teacher}) {
      widen(*model, 4, 1024);
      if (model->mixture.shared > 0) model->mixture.shared = 512;
      model->position.max = 2048;
    }
    config.distillation.teacher->layers = 6;
    config.batch.seq_length = 2048;
    config.batch.global_batch_size = 8;
    config.measure.warmup_steps = 1;
    set_emulated(config);
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    const EmulatedStep step = emulated_step(config);
    SCOPED_TRACE(fmt::format("{} zero {}", e.schedule, e.zero));
    expect_as_predicted(step, 0.02);
    EXPECT_GT(step.result.step_traffic.of(Group::expert).calls, 0);
  }
}

class GoldenMixtures : public testing::TestWithParam<const char*> {};

TEST_P(GoldenMixtures, LossAndGradientsEqualPyTorchs) {
  const std::string folder = fmt::format("{}/tests/golden/distillation", PLUMBLINE_SOURCE_DIR);
  std::ifstream expected_file(folder + "/expected.json");
  const double loss = nlohmann::json::parse(expected_file)[GetParam()].get<double>();
  const auto gradients = tensors_of(fmt::format("{}/{}.safetensors", folder, GetParam()));
  RunConfig config = load_run_config(fmt::format("{}/{}.yaml", folder, GetParam()), {});
  int compared = 0;
  for (const Layout& layout : layouts_of(world_ranks())) {
    set_layout(config, layout);
    config.parallel.expert = layout.data;
    if (why_invalid(config)) continue;  // two layers do not make four stages
    MpiCommunicator communicator(config.layout());
    const std::string name =
        fmt::format("{} tp{} pp{} dp{}", GetParam(), layout.tensor, layout.pipeline, layout.data);
    const StepResult found = one_step(config, communicator);
    ++compared;
    EXPECT_NEAR(found.loss / loss, 1, 1e-5) << name;
    if (communicator.rank() != 0) continue;
    // The gradients in the golden file.
    Tensors same_tensors;
    for (const auto& [tensor, values] : gradients) {
      const auto at = found.gradients.find(tensor);
      ASSERT_NE(at, found.gradients.end()) << tensor;
      same_tensors[tensor] = at->second;
    }
    expect_gradients(gradients, same_tensors, 1e-4, name);
  }
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(Pairs, GoldenMixtures,
                         testing::Values("mixture_teacher", "mixture_student", "mixtures"));

}  // namespace
}  // namespace plumbline::training::distilled_mixture_step_test
