// Context parallelism. Loss and gradients equal those of one rank, and of PyTorch for the golden models;
// memory and traffic are as predicted on every rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "analysis/memory/memory_model.hpp"
#include "analysis/work/traffic.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"
#include "core/run/solo_communicator.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::context_step_test {
namespace {

struct Case {
  const char* name;
  int context;
  int tensor;
  int pipeline;  // the other ranks are replicas
  const char* schedule;
  bool gpt2;
  DType precision = DType::fp32;
  int zero = 0;
  bool sequence_parallel = false;
  std::size_t recomputation = 0;
  std::size_t dropout = 0;
  const char* vocabulary = "none";
  std::int64_t window = 0;
  bool alibi = false;
  bool teacher = false;
  bool balanced = true;
  bool unfused = false;  // memory alone: sequences that ranks share are computed as with fused attention
  bool latent = false;   // attention, in a mixture of experts
  bool normed = false;   // queries and keys
  int ranks() const { return context * tensor * pipeline; }
};

constexpr Case normed(Case c) {
  c.normed = true;
  return c;
}
constexpr Case latent(Case c) {
  c.latent = true;
  return c;
}

// Cases of two ranks and of four; ZeRO 1 also as two replicas.
constexpr Case kCases[] = {
    {"llama, unfused", 2, 1, 1, "1f1b", false, DType::fp32, 0, false, 0, 0, "none", 0, false, false, true,
     true},
    {"gpt2, dropout, ZeRO 1, unfused", 2, 1, 1, "gpipe", true, DType::fp32, 1, false, 0, 1, "none", 0, false,
     false, true, true},
    {"bf16, selective, ZeRO 3", 2, 1, 1, "1f1b", false, DType::bf16, 3, false, 1},
    {"split backward, full recomputation, window", 2, 1, 1, "zb-h1", false, DType::fp32, 2, false, 3, 0,
     "none", 10},
    {"slopes, selective recomputation", 2, 1, 1, "1f1b", true, DType::fp32, 0, false, 1, 0, "none", 0, true},
    {"teacher", 2, 1, 1, "1f1b", false, DType::fp32, 0, false, 0, 0, "none", 0, false, true},
    {"four ranks, dropout, unfused", 4, 1, 1, "zb-h1", false, DType::fp32, 1, false, 0, 1, "none", 0, false,
     false, true, true},
    {"four ranks, gpt2", 4, 1, 1, "1f1b", true, DType::bf16, 3},
    {"tensor ranks, sequence parallel, dropout", 2, 2, 1, "1f1b", true, DType::fp32, 1, true, 0, 1},
    {"tensor ranks, shared heads", 2, 2, 1, "1f1b", false, DType::bf16, 2, false, 2},
    {"four ranks, window", 4, 1, 1, "1f1b", true, DType::fp32, 0, false, 1, 0, "none", 8},
    {"contiguous", 2, 1, 1, "1f1b", false, DType::fp32, 0, false, 1, 0, "none", 0, false, false, false},
    {"four ranks, contiguous", 4, 1, 1, "zb-h1", true, DType::fp32, 0, false, 0, 1, "none", 9, false, false,
     false},
    {"pipeline", 2, 1, 2, "zb-v", false, DType::fp32, 1, false, 1},
    {"pipeline, split vocabulary", 2, 1, 2, "1f1b", true, DType::fp32, 1, false, 0, 1, "vocab-2"},
    {"bidirectional pipeline", 2, 1, 2, "dualpipe", false},
    latent({"latent, selective, ZeRO 3", 2, 1, 1, "1f1b", false, DType::fp32, 3, false, 1}),
    latent({"latent, split backward, full recomputation", 2, 1, 1, "zb-h1", false, DType::fp32, 2, false, 3}),
    latent({"latent, four ranks, dropout", 4, 1, 1, "zb-h1", false, DType::fp32, 0, false, 0, 1}),
    latent({"latent, tensor ranks, sequence parallel", 2, 2, 1, "1f1b", false, DType::fp32, 1, true}),
    normed({"norms", 2, 1, 1, "1f1b", false, DType::fp32, 3, false, 1}),
    normed({"norms, split backward, full recomputation", 2, 1, 1, "zb-h1", false, DType::fp32, 0, false, 3}),
    normed({"norms, four ranks", 4, 1, 1, "zb-h1", true, DType::fp32, 1, false, 0, 1}),
};

RunConfig config_of(const Case& c, int ranks) {
  RunConfig config;
  config.model = c.gpt2 ? small_gpt2() : c.latent ? small_deepseek(true) : small_qwen2();
  config.model.layers = 4;
  config.model.norms.qk = c.normed;
  config.model.window.size = c.window;
  if (c.window > 0) config.model.window.full_layers = {true, false, false, true};
  if (c.alibi) config.model.position.kind = Positions::alibi;
  config.numerics.precision = c.precision;
  set_dropout(config, kDropouts[c.dropout]);
  config.batch = {.seq_length = 24, .micro_batch_size = 2, .global_batch_size = 16};
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.dp.bucket_size = 20'000;
  config.parallel.pp.schedule = c.schedule;
  config.recompute.granularity = kRecomputations[c.recomputation].granularity;
  config.recompute.num_layers = kRecomputations[c.recomputation].layers;
  if (c.teacher) {
    config.distillation.teacher = small_gpt2();
    config.distillation.lm_weight = 0.5;
  }
  config.measure.steps = 1;
  config.measure.warmup_steps = 0;
  if (ranks == 1) {
    config.parallel.pp.schedule = "1f1b";
    return config;
  }
  config.parallel.world_size = ranks;
  config.parallel.context = c.context;
  config.parallel.cp.load_balance = c.balanced;
  config.parallel.tensor = c.tensor;
  config.parallel.pipeline = c.pipeline;
  config.parallel.dp.zero_stage = c.zero;
  config.parallel.sequence_parallel = c.sequence_parallel;
  config.parallel.pp.vocab_parallel = parse_vocab_parallel(c.vocabulary);
  return config;
}

/// Heads between two ranks each with a2a+p2p.
void set_type(RunConfig& config, CpCommType type) {
  config.parallel.cp.comm_type = type;
  config.parallel.cp.hierarchical = {};
  if (type == CpCommType::a2a_p2p) config.parallel.cp.hierarchical = {2, config.parallel.context / 2};
}

/// One rank's step, on rank 0 of the world, and by how much its 16-bit numbers put its gradients off.
struct Reference {
  StepResult step;
  std::map<std::string, double> rounding;
};
Reference reference_of(const Case& c) {
  const int rank = world_rank();
  if (rank != 0) return {};
  SoloCommunicator solo;
  RunConfig config = config_of(c, 1);
  Reference reference{one_step(config, solo), {}};
  if (c.precision == DType::fp32) return reference;
  config.numerics.precision = DType::fp32;
  reference.rounding = errors_of(one_step(config, solo).gradients, reference.step.gradients);
  return reference;
}

void compare(const RunConfig& config, const Reference& reference) {
  ASSERT_EQ(why_invalid(config).value_or(""), "");
  const double tolerance = config.numerics.precision != DType::fp32 ? 2e-2 : 1e-5;
  const Schedule schedule = schedule_for(config);
  MpiCommunicator communicator(config.layout());
  const StepResult found = one_step(config, schedule, communicator);
  EXPECT_TRUE(
      same(predict_traffic(config, schedule)[static_cast<std::size_t>(communicator.rank())], found.traffic));
  if (communicator.rank() != 0) return;
  EXPECT_NEAR(found.loss / reference.step.loss, 1, tolerance);
  EXPECT_NEAR(found.gradient_norm / reference.step.gradient_norm, 1, tolerance);
  std::string worst;
  // Round a ring 16-bit gradients of keys and queries are rounded once per block.
  const bool rounds = (config.parallel.cp.comm_type == CpCommType::p2p || config.parallel.hierarchical()) &&
                      !reference.rounding.empty();
  EXPECT_LE(largest_share(reference.step.gradients, found.gradients, tolerance, reference.rounding, worst),
            rounds ? 1.5 : 1)
      << worst;
  const MemoryPrediction prediction = predict_memory(config, schedule);
  for (int rank = 0; rank < config.parallel.world_size; ++rank) {
    const MemoryBreakdown& predicted = prediction.of_rank(rank).peak;
    const MemoryBreakdown& measured = found.memory[static_cast<std::size_t>(rank)].at_peak;
    for (int i = 0; i < kCategories; ++i) {
      const auto category = static_cast<Category>(i);
      EXPECT_EQ(predicted[category].value, measured[category].value)
          << "rank " << rank << " " << name_of(category);
    }
  }
}

TEST(ContextParallel, GivesTheSingleRanksGradientsInThePredictedMemory) {
  const int ranks = world_ranks();
  int compared = 0;
  for (const Case& c : kCases) {
    if (ranks % c.ranks() != 0 || (ranks > c.ranks() && c.zero != 1)) continue;
    const Reference reference = reference_of(c);
    // Heads are exchanged in every other case that has enough of them.
    const std::int64_t key_heads = config_of(c, ranks).model.kv_heads / c.tensor;
    const bool exchanges = key_heads % c.context == 0 && (c.normed || c.latent || compared % 4 == 0);
    for (const CpCommType type :
         {CpCommType::p2p, CpCommType::a2a, CpCommType::all_gather, CpCommType::a2a_p2p}) {
      if (type == CpCommType::a2a && !exchanges) continue;
      if (type == CpCommType::all_gather && exchanges && !c.latent) continue;
      if (type == CpCommType::a2a_p2p && (c.context < 4 || key_heads % 2 != 0)) continue;
      RunConfig config = config_of(c, ranks);
      set_type(config, type);
      ASSERT_EQ(why_unsupported(config).value_or(""), "");
      if (c.unfused) config.numerics.attention_backend = AttentionBackend::unfused;
      SCOPED_TRACE(fmt::format("{}, {}", c.name, cp_comm_type_name(type)));
      compare(config, reference);
      ++compared;
    }
  }
  EXPECT_GE(compared, 8);
}

MemoryBreakdown after_first_forward(const RunConfig& config) {
  return predict_memory(config, schedule_for(config), MemoryDetail::timeline)
      .ranks.front()
      .timeline.front()
      .after;
}

/// A rank with parts of more sequences keeps as much as one with whole sequences, eight copies of the model
/// each. Only workspace differs, which has rotary tables and attention's own buffers.
TEST(ContextParallel, MemoryFollowsTheTokensOfARank) {
  for (const int context : {2, 4}) {
    for (const std::size_t recomputation : {0U, 1U, 3U}) {
      for (const CpCommType type : {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a}) {
        for (const int zero : {0, 1, 3}) {
          RunConfig alone = config_of(kCases[1], 8);
          alone.recompute.granularity = kRecomputations[recomputation].granularity;
          alone.recompute.num_layers = kRecomputations[recomputation].layers;
          alone.batch.micro_batch_size = 1;
          alone.parallel.context = 1;
          alone.parallel.dp.zero_stage = zero;
          RunConfig shared = alone;
          shared.batch.micro_batch_size = shared.parallel.context = context;
          shared.parallel.cp.comm_type = type;
          ASSERT_EQ(why_invalid(shared).value_or(""), "");
          const MemoryBreakdown one = after_first_forward(alone);
          MemoryBreakdown two = after_first_forward(shared);
          // With heads exchanged a layer keeps attention's result once more, by head, unless it is
          // recomputed.
          if (type == CpCommType::a2a && recomputation == 0) {
            const ModelConfig& model = alone.model;
            two[Category::activations] -=
                Bytes{model.layers * alone.batch.seq_length * model.heads * model.head_dim * 4};
          }
          for (const Category category : {Category::parameters, Category::gradients, Category::optimizer,
                                          Category::activations, Category::logits, Category::communication}) {
            EXPECT_EQ(one[category].value, two[category].value)
                << fmt::format("cp {} {} zero {} {}, {}", context, cp_comm_type_name(type), zero,
                               kRecomputations[recomputation].name, name_of(category));
          }
        }
      }
    }
  }
}

TEST(ContextParallel, GoldenModelsEqualPyTorchs) {
  bool rings = false;  // every other model round a ring alone
  for (const char* model : {"llama", "gpt2", "qwen2_window", "dropout/gpt2"}) {
    const std::string folder = fmt::format("{}/tests/golden/{}", PLUMBLINE_SOURCE_DIR, model);
    std::ifstream expected_file(folder + "/expected.json");
    const nlohmann::json expected = nlohmann::json::parse(expected_file);
    RunConfig config = load_run_config(folder + "/run.yaml", {});
    config.parallel.world_size = config.parallel.context = world_ranks();
    set_type(config, CpCommType::a2a);
    if (why_invalid(config)) set_type(config, rings ? CpCommType::p2p : CpCommType::a2a_p2p);
    if (why_invalid(config)) set_type(config, CpCommType::p2p);
    rings = !rings;
    MpiCommunicator communicator(config.layout());
    const StepResult found = one_step(config, communicator);
    EXPECT_NEAR(found.loss / expected["loss"].get<double>(), 1, 1e-5) << model;
    if (communicator.rank() != 0) continue;
    expect_gradients(tensors_of(folder + "/gradients.safetensors"), found.gradients, 1e-4, model);
  }
}

}  // namespace
}  // namespace plumbline::training::context_step_test
