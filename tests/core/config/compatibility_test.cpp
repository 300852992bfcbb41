// The compatibility table: its rows are complete, and every refusal comes from one of them.
#include "core/config/compatibility.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "core/config/config_checks.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline::compatibility_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Compatibility, RowsAreWhole) {
  for (const CompatibilityRow& row : compatibility_rows()) {
    SCOPED_TRACE(std::string(row.key) + " " + std::string(row.other.values));
    EXPECT_NE(find_config_key(row.key), nullptr);
    EXPECT_FALSE(row.other.values.empty());
    EXPECT_NE(row.refusers, 0U);
    if (row.relation == Relation::limits) {
      EXPECT_NE(row.limit, nullptr);
      continue;
    }
    EXPECT_EQ(row.limit, nullptr);
    EXPECT_NE(row.feature.on, nullptr);
    EXPECT_NE(row.feature.found, nullptr);
    EXPECT_NE(row.other.on, nullptr);
    EXPECT_FALSE(row.feature.values.empty());
    EXPECT_FALSE(row.expected.empty());
    if (!row.other.key.empty()) {
      EXPECT_NE(find_config_key(row.other.key), nullptr);
      EXPECT_NE(row.other.found, nullptr);
    }
  }
}

TEST(Compatibility, ARefusalIsMadeFromARow) {
  const auto text = [](Relation relation, std::string_view why, Feature other) {
    const CompatibilityRow row{.key = "zero_stage",
                               .relation = relation,
                               .feature = {"zero_stage", "any", [](const RunConfig&) { return true; },
                                           [](const RunConfig&) { return std::string("2"); }},
                               .other = other,
                               .why = why,
                               .expected = "0"};
    return refusal_of(row, RunConfig()).value_or("accepted");
  };
  const auto on = [](const RunConfig&) { return true; };
  const auto off = [](const RunConfig&) { return false; };
  const auto one = [](const RunConfig&) { return std::string("1"); };
  EXPECT_EQ(text(Relation::excludes, "", {"", "a teacher", on}),
            "zero_stage: found 2 with a teacher, expected 0");
  EXPECT_EQ(text(Relation::excludes, "whose heart is cold", {"", "a teacher", on}),
            "zero_stage: found 2 with a teacher, whose heart is cold; expected 0");
  EXPECT_EQ(text(Relation::excludes, "it is late", {"optimizer", "adam", on, one}),
            "zero_stage: found 2 with optimizer 1, expected 0: it is late");
  EXPECT_EQ(text(Relation::needs, "", {"", "data", off}), "zero_stage: found 2 without data, expected 0");
  EXPECT_EQ(text(Relation::needs, "", {"optimizer", "adam", off, one}),
            "zero_stage: found 2 with optimizer 1, expected 0");
  EXPECT_EQ(text(Relation::excludes, "", {"", "a teacher", off}), "accepted");
  EXPECT_EQ(text(Relation::needs, "", {"", "data", on}), "accepted");
}

using Change = void (*)(RunConfig& c);
constexpr Change kChanges[] = {
    [](RunConfig& c) { c.model = *find_preset("mixtral-8x7b"); },
    [](RunConfig& c) { c.model = *find_preset("deepseek-v3"); },
    [](RunConfig& c) { c.model = *find_preset("gpt2-124m"); },
    [](RunConfig& c) { c.distillation.teacher = *find_preset("llama-3-8b"); },
    [](RunConfig& c) { c.distillation.teacher = *find_preset("qwen3-30b-a3b"); },
    [](RunConfig& c) { c.parallel.tensor = 2; },
    [](RunConfig& c) { c.parallel.pipeline = 4; },
    [](RunConfig& c) { c.parallel.context = 2; },
    [](RunConfig& c) { c.parallel.expert = 2; },
    [](RunConfig& c) { c.parallel.expert_tensor = 1; },
    [](RunConfig& c) { c.parallel.sequence_parallel = true; },
    [](RunConfig& c) { c.parallel.tp.comm_overlap = true; },
    [](RunConfig& c) { c.parallel.cp.comm_type = CpCommType::a2a; },
    [](RunConfig& c) { c.parallel.ep.token_dispatcher = TokenDispatcher::allgather; },
    [](RunConfig& c) { c.parallel.ep.overlap_comm = true; },
    [](RunConfig& c) { c.parallel.ep.shared_expert_overlap = true; },
    [](RunConfig& c) { c.parallel.pp.defer_embedding_wgrad_compute = true; },
    [](RunConfig& c) { c.parallel.pp.vocab_parallel = VocabPasses::one_barrier; },
    [](RunConfig& c) { c.parallel.pp.schedule = "zb-h1"; },
    [](RunConfig& c) { c.parallel.pp.schedule = "abeja"; },
    [](RunConfig& c) { c.parallel.dp.zero_stage = 2; },
    [](RunConfig& c) { c.parallel.dp.zero_stage = 3; },
    [](RunConfig& c) { c.parallel.dp.overlap_param_gather = true; },
    [](RunConfig& c) { c.parallel.dp.optimizer_instances = 2; },
    [](RunConfig& c) { c.parallel.dp.hpz_partition_size = 2; },
    [](RunConfig& c) { c.numerics.fp8.format = Fp8Format::hybrid; },
    [](RunConfig& c) { c.numerics.fp8.recipe = Fp8Recipe::mxfp8; },
    [](RunConfig& c) { c.numerics.fp4_format = Fp4Format::e2m1; },
    [](RunConfig& c) { c.numerics.precision = DType::fp16; },
    [](RunConfig& c) { c.numerics.attention_backend = AttentionBackend::unfused; },
    [](RunConfig& c) { c.mixture.capacity_factor = 1; },
    [](RunConfig& c) { c.mixture.routing = "worst"; },
    [](RunConfig& c) { c.mixture.aux_loss_coeff = 0.01; },
    [](RunConfig& c) { c.model.prediction_modules = 1; },
    [](RunConfig& c) { c.model.norms.qk = true; },
    [](RunConfig& c) { c.model.predicted.norms = NormPlaces::after; },
    [](RunConfig& c) { c.model.predicted.query_norm = QueryNorm::width; },
    [](RunConfig& c) { c.numerics.hidden_dropout = 0.1; },
    [](RunConfig& c) { c.batch.prefix_length = 16; },
    [](RunConfig& c) { c.recompute.granularity = Recompute::full; },
    [](RunConfig& c) { c.recompute.modules = {.mlp = true}; },
    [](RunConfig& c) { c.offload.num_layers = 1; },
    [](RunConfig& c) { c.finetune.frozen = Frozen::lora; },
    [](RunConfig& c) { c.generation.task = RunTask::generate; },
    [](RunConfig& c) { c.generation.task = RunTask::sft; },
    [](RunConfig& c) { c.batch.packed_sequence = true; },
    [](RunConfig& c) { c.batch.dynamic_context_parallel = true; },
    [](RunConfig& c) { c.machine.software = "megatron-core"; },
    [](RunConfig& c) { c.machine.cuda_graph_impl = CudaGraphImpl::local; },
    [](RunConfig& c) { c.machine.backend = Backend::cuda; },
    [](RunConfig& c) { c.machine.backend = Backend::emulated; },
    [](RunConfig& c) { c.machine.hardware = "h100-sxm-80gb"; },
    [](RunConfig& c) {
      c.measure.slow_ranks.push_back({0, 2});
    },
};

/// The refusal of the first row that refuses, of those that one of `refusers` stands in.
std::string by_the_table(const RunConfig& config, unsigned refusers) {
  const auto& teacher = config.distillation.teacher;
  RunConfig evaluated = config;
  if (teacher) evaluated.model = *teacher;
  for (const CompatibilityRow& row : compatibility_rows()) {
    if ((row.refusers & refusers) == 0) continue;
    if (const auto refusal = refusal_of(row, config)) return *refusal;
    if (!row.of_teachers || !teacher || !teacher->mixture) continue;
    if (const auto refusal = refusal_of(row, evaluated)) return *refusal;
  }
  return "accepted";
}

TEST(Compatibility, NothingIsRefusedButByARow) {
  std::mt19937 draws(1);
  std::set<std::string> refusals;
  for (int i = 0; i < 20'000; ++i) {
    RunConfig config;
    config.model = *find_preset("llama-3-8b");
    for (std::size_t n = 1 + draws() % 5; n > 0; --n) kChanges[draws() % std::size(kChanges)](config);
    config.parallel.world_size = static_cast<int>(config.parallel.model_ranks()) * 2;
    config.batch.global_batch_size = 16;
    const bool own = config.machine.software == "plumbline";
    const std::string refusal = why_invalid(config).value_or("accepted");
    ASSERT_EQ(refusal, by_the_table(config, own ? kOwnStep : kOtherSoftware));
    ASSERT_THAT(refusal, Not(HasSubstr("\n")));
    refusals.insert(refusal);
    if (refusal != "accepted") continue;
    constexpr unsigned kBackends[] = {kRunCpu, kRunCuda, kRunEmulated};
    const std::string no_run = why_unsupported(config).value_or("accepted");
    ASSERT_EQ(no_run, by_the_table(config, kBackends[static_cast<int>(config.machine.backend)]));
    refusals.insert(no_run);
    if (config.machine.hardware.empty()) continue;
    ASSERT_EQ(why_unpredictable(config).value_or("accepted"),
              by_the_table(config, own ? kPredictOwn : kPredictOther));
  }
  EXPECT_GT(refusals.size(), 80U);
}

/// "found X with KEY Y": Y is the key's value, not the one that is needed.
TEST(Compatibility, AMissingNeedIsNamedByItsValue) {
  std::mt19937 draws(2);
  std::set<std::string> seen;
  for (int i = 0; i < 20'000; ++i) {
    RunConfig config;
    config.model = *find_preset("llama-3-8b");
    for (std::size_t n = 1 + draws() % 5; n > 0; --n) kChanges[draws() % std::size(kChanges)](config);
    for (const CompatibilityRow& row : compatibility_rows()) {
      const bool needed = row.relation == Relation::needs && !row.other.key.empty();
      if (!needed || !row.feature.on(config) || row.other.on(config)) continue;
      seen.insert(std::string(row.key) + " " + std::string(row.other.key));
      EXPECT_EQ(row.other.found(config), find_config_key(row.other.key)->print(config))
          << row.key << ": " << row.other.key;
    }
    if (HasFailure()) return;
  }
  EXPECT_GE(seen.size(), 8U) << testing::PrintToString(seen);
}

}  // namespace
}  // namespace plumbline::compatibility_test
