// Linear layers in FP8: predicted and measured memory agree to the byte, in every action and category.
// The prediction knows only the description in bench/training/fp8.md and the pages next to it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "analysis/memory/memory_model.hpp"
#include "analysis/work/routing/routed_traffic.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "tests/bench/training/covering.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::fp8_memory_agreement_test {
namespace {

constexpr const char* kSchedules[] = {"1f1b", "zb-h1", "interleaved", "v-half", "dualpipe"};
constexpr Fp8Recipe kRecipes[] = {Fp8Recipe::delayed, Fp8Recipe::tensorwise};
constexpr std::size_t kZeroStages = 4;
enum Column : std::size_t { kLayout, kSchedule, kSequence, kRecompute, kZero, kDropout, kRecipe };

struct Cell {
  std::string name;
  RunConfig config;
};

/// Sizes that stay multiples of 16 on eight tensor ranks.
RunConfig base(const Layout& layout) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.head_dim = 16;
  config.model.ffn = 128;
  set_layout(config, layout);
  config.numerics.precision = DType::bf16;
  config.numerics.fp8.format = Fp8Format::hybrid;
  config.numerics.fp8.amax_history_len = 3;
  config.batch.seq_length = 32;
  config.batch.global_batch_size = std::int64_t{8} * layout.data;
  config.parallel.make_vocab_size_divisible_by = 8;
  config.measure.steps = 1;
  config.measure.warmup_steps = 0;
  return config;
}

enum class Mixed { plain, shared, dense_first, latent };
/// With as round sizes.
ModelConfig mixture(Mixed kind) {
  const bool dense_first = kind == Mixed::dense_first || kind == Mixed::latent;
  ModelConfig model =
      dense_first ? small_deepseek(kind == Mixed::latent) : small_mixture(kind == Mixed::shared);
  model.layers = dense_first ? 8 : 4;
  model.head_dim = 16;
  if (kind == Mixed::latent) {
    model.latent = {32, 16, 16, 16, 48};
    model.head_dim = 32;
    model.rotary.dim = 16;
  }
  model.ffn = 32;
  model.mixture.experts = 8;
  if (kind == Mixed::shared) model.architecture = "qwen2_moe";
  if (kind != Mixed::plain) model.mixture.shared = 64;
  if (dense_first) model.mixture.dense_ffn = 128;
  return model;
}

/// Every layout with every schedule; any two of the other settings meet.
std::vector<Cell> covering_cells(const std::vector<Layout>& layouts) {
  std::vector<std::pair<std::size_t, std::size_t>> given;
  for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
    for (std::size_t schedule = 0; schedule < std::size(kSchedules); ++schedule) {
      given.emplace_back(layout, schedule);
    }
  }
  const auto all = [](const Row&) { return true; };
  const std::vector<Row> rows =
      covering_rows(given, {3, kWithoutModules, kZeroStages, std::size(kDropouts), std::size(kRecipes)}, all);
  std::vector<Cell> cells;
  for (const Row& row : rows) {
    const Layout& layout = layouts[row[kLayout]];
    const Recomputation& recomputation = kRecomputations[row[kRecompute]];
    Cell cell{
        fmt::format("{} tp{} pp{} dp{} sp{} recompute {} zero{} {} {}", kSchedules[row[kSchedule]],
                    layout.tensor, layout.pipeline, layout.data, row[kSequence], recomputation.name,
                    row[kZero], kDropouts[row[kDropout]].name, row[kRecipe] == 0 ? "delayed" : "tensorwise"),
        base(layout)};
    cell.config.parallel.pp.schedule = kSchedules[row[kSchedule]];
    cell.config.parallel.sequence_parallel = row[kSequence] > 0;
    cell.config.parallel.tp.comm_overlap = row[kSequence] == 2;
    cell.config.recompute.granularity = recomputation.granularity;
    cell.config.recompute.num_layers = recomputation.layers;
    cell.config.parallel.dp.zero_stage = static_cast<int>(row[kZero]);
    set_dropout(cell.config, kDropouts[row[kDropout]]);
    cell.config.numerics.fp8.recipe = kRecipes[row[kRecipe]];
    cells.push_back(std::move(cell));
  }
  return cells;
}

/// On 8 ranks only 2 x 2 x 2: fewer ranks show the other splits in less time.
std::vector<Layout> splits(int ranks) {
  std::vector<Layout> all = layouts_of(ranks);
  if (ranks < 8) return all;
  std::erase_if(all, [](const Layout& at) { return at.tensor > 2 || at.pipeline > 2 || at.data > 2; });
  return all;
}

/// Cells that are not in the covering.
std::vector<Cell> further_cells(const Layout& layout) {
  std::vector<Cell> cells;
  const auto add = [&](const char* name, auto change) {
    Cell cell{fmt::format("{} tp{} pp{} dp{}", name, layout.tensor, layout.pipeline, layout.data),
              base(layout)};
    change(cell.config);
    cells.push_back(std::move(cell));
  };
  add("gpt2 fp32 e4m3", [](RunConfig& config) {
    config.model = small_gpt2();
    config.model.head_dim = 16;
    config.numerics.precision = DType::fp32;
    config.numerics.fp8.format = Fp8Format::e4m3;
    config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
    config.parallel.dp.zero_stage = 3;
  });
  add("gpt2 zb-h1", [](RunConfig& config) {
    config.model = small_gpt2();
    config.model.head_dim = 16;
    config.parallel.pp.schedule = "zb-h1";
    config.parallel.sequence_parallel = true;
  });
  add("unfused attention with dropout", [](RunConfig& config) {
    config.numerics.attention_backend = AttentionBackend::unfused;
    config.recompute.granularity = Recompute::selective;
    set_dropout(config, kDropouts[1]);
  });
  add("16-bit partial sums", [](RunConfig& config) {
    config.numerics.fp8.format = Fp8Format::none;
    config.numerics.precision = DType::bf16;
    config.parallel.tp.reduce_in_fp32 = false;
  });
  add("16-bit partial sums, overlapped", [](RunConfig& config) {
    config.numerics.precision = DType::bf16;
    config.parallel.tp.reduce_in_fp32 = false;
    config.parallel.sequence_parallel = config.parallel.tp.comm_overlap = true;
    config.parallel.pp.schedule = "zb-h1";
  });
  add("vocab-1", [](RunConfig& config) { config.parallel.pp.vocab_parallel = VocabPasses::two_barriers; });
  add("v-half vocab-2", [](RunConfig& config) {
    config.parallel.pp.schedule = "v-half";
    config.parallel.pp.vocab_parallel = VocabPasses::one_barrier;
  });
  add("mixture", [](RunConfig& config) {
    config.model = mixture(Mixed::plain);
    config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
  });
  add("mixture zb-h1 zero 3", [](RunConfig& config) {
    config.model = mixture(Mixed::shared);
    config.parallel.pp.schedule = "zb-h1";
    config.parallel.sequence_parallel = true;
    config.parallel.dp.zero_stage = 3;
    config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
    set_dropout(config, kDropouts[1]);
    config.numerics.attention_dropout = 0;
  });
  add("mixture after dense layers", [](RunConfig& config) {
    config.model = mixture(Mixed::dense_first);
    config.parallel.pp.schedule = config.parallel.pipeline > 1 ? "zb-v" : "1f1b";
    config.recompute.granularity = Recompute::full;
    config.parallel.dp.zero_stage = 2;
  });
  add("mixture fp32 zero 3", [](RunConfig& config) {
    config.model = mixture(Mixed::shared);
    config.numerics.precision = DType::fp32;
    config.numerics.fp8.format = Fp8Format::e4m3;
    config.parallel.dp.zero_stage = 3;
    config.recompute.granularity = Recompute::selective;
  });
  add("mixture with a capacity", [](RunConfig& config) {
    config.model = mixture(Mixed::plain);
    config.mixture.capacity_factor = 0.8;
    config.mixture.pad_to_capacity = config.parallel.tensor > 1;
    config.parallel.sequence_parallel = true;
    config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
  });
  add("experts over ranks", [](RunConfig& config) {
    config.model = mixture(Mixed::shared);
    config.parallel.expert = 2;
    config.parallel.dp.zero_stage = 3;
    config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
    config.recompute.granularity = Recompute::full;
  });
  add("experts over ranks, gathered in the first forward", [](RunConfig& config) {
    config.model = mixture(Mixed::shared);
    config.parallel.expert = 2;
    config.parallel.dp.zero_stage = 2;
    config.parallel.dp.overlap_param_gather = true;
    config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
  });
  add("experts over ranks of instances", [](RunConfig& config) {
    config.model = mixture(Mixed::plain);
    config.parallel.expert = 2;
    config.parallel.dp.zero_stage = 1;
    config.parallel.dp.overlap_param_gather = true;
    config.parallel.dp.optimizer_instances = 2;
  });
  add("experts with a sharding of their own", [](RunConfig& config) {
    config.model = mixture(Mixed::shared);
    config.parallel.expert = 2;
    config.parallel.expert_tensor = config.parallel.tensor > 1 ? 1 : 2;
    config.parallel.sequence_parallel = true;
    config.parallel.pp.schedule = "zb-h1";
    config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
  });
  add("experts over ranks zb-h1", [](RunConfig& config) {
    config.model = mixture(Mixed::dense_first);
    config.parallel.expert = 2;
    config.parallel.dp.zero_stage = 1;
    config.parallel.pp.schedule = config.parallel.pipeline > 1 ? "dualpipe" : "zb-h1";
  });
  add("latent attention", [](RunConfig& config) {
    config.model = mixture(Mixed::latent);
    config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
  });
  add("latent attention zb-h1 zero 3", [](RunConfig& config) {
    config.model = mixture(Mixed::latent);
    config.parallel.pp.schedule = "zb-h1";
    config.parallel.sequence_parallel = true;
    config.parallel.dp.zero_stage = 3;
    config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
  });
  add("latent attention recomputed", [](RunConfig& config) {
    config.model = mixture(Mixed::latent);
    config.parallel.pp.schedule = config.parallel.pipeline > 1 ? "zb-v" : "1f1b";
    config.parallel.sequence_parallel = true;
    config.recompute.granularity = Recompute::full;
    config.parallel.dp.zero_stage = 2;
  });
  add("latent attention fp32 zero 3", [](RunConfig& config) {
    config.model = mixture(Mixed::latent);
    config.numerics.precision = DType::fp32;
    config.numerics.fp8.format = Fp8Format::e4m3;
    config.parallel.dp.zero_stage = 3;
    config.recompute.granularity = Recompute::selective;
  });
  add("latent attention, experts over ranks", [](RunConfig& config) {
    config.model = mixture(Mixed::latent);
    config.parallel.expert = 2;
    config.parallel.pp.schedule = config.parallel.pipeline > 1 ? "dualpipe" : "zb-h1";
    config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
  });
  add("modules recomputed", [](RunConfig& config) {
    config.recompute.granularity = Recompute::selective;
    config.recompute.modules = {.core_attn = true, .layernorm = true, .mlp = true};
    config.parallel.pp.schedule = "zb-h1";
    config.parallel.sequence_parallel = true;
  });
  add("modules of a mixture recomputed", [](RunConfig& config) {
    config.model = mixture(Mixed::shared);
    config.recompute.granularity = Recompute::selective;
    config.recompute.modules = {.moe_act = true, .layernorm = true, .shared_experts = true};
    config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
  });
  add("modules of latent attention recomputed", [](RunConfig& config) {
    config.model = mixture(Mixed::latent);
    config.parallel.sequence_parallel = true;
    config.recompute.granularity = Recompute::selective;
    config.recompute.modules = {.layernorm = true, .mla_up_proj = true, .moe = true};
  });
  add("experts over ranks recomputed", [](RunConfig& config) {
    config.model = mixture(Mixed::shared);
    config.parallel.expert = 2;
    config.parallel.pp.schedule = "zb-h1";
    config.recompute.granularity = Recompute::selective;
    config.recompute.modules = {.moe = true};
    config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
  });
  add("further tokens", [](RunConfig& config) {
    config.model.prediction_modules = 2;
    config.parallel.pp.schedule = "zb-h1";
    config.parallel.sequence_parallel = true;
    config.parallel.dp.zero_stage = 3;
    config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
    set_dropout(config, kDropouts[1]);
  });
  add("further tokens, experts over ranks", [](RunConfig& config) {
    config.model = mixture(Mixed::latent);
    config.model.prediction_modules = 1;
    config.parallel.expert = 2;
    config.parallel.dp.zero_stage = 1;
    config.parallel.dp.overlap_param_gather = true;
    config.recompute.granularity = Recompute::full;
    set_dropout(config, kDropouts[1]);
  });
  add("vocab-1, sequence parallel", [](RunConfig& config) {
    config.parallel.pp.vocab_parallel = VocabPasses::two_barriers;
    config.parallel.sequence_parallel = true;
    config.numerics.fp8.recipe = Fp8Recipe::tensorwise;
  });
  add("loss in fp32", [](RunConfig& config) { config.numerics.cross_entropy_loss_fusion = false; });
  add("a teacher in the storage type", [](RunConfig& config) {
    config.distillation.teacher = small_gpt2();
    config.model.position.max = config.distillation.teacher->position.max;
    config.distillation.schedule = "abeja";
  });
  return cells;
}

bool legal(const RunConfig& config) {
  if (why_invalid(config)) return false;
  try {
    schedule_for(config);
  } catch (const InputError&) {
    return false;
  }
  return true;
}

void expect_same(const MemoryBreakdown& predicted, const MemoryBreakdown& measured,
                 const std::string& where) {
  for (int i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    EXPECT_EQ(predicted[category].value, measured[category].value) << where << ", " << name_of(category);
  }
}

void compare(const Cell& cell, const StepResult& step) {
  const Schedule schedule = schedule_for(cell.config);
  const MemoryPrediction prediction = predict_memory(cell.config, schedule, MemoryDetail::timeline);
  const Layout layout = cell.config.layout();
  for (int rank = 0; rank < layout.world(); ++rank) {
    const auto& predicted = prediction.of_rank(rank);
    expect_same(predicted.peak, step.memory[static_cast<std::size_t>(rank)].at_peak,
                fmt::format("rank {}", rank));
    const Coordinates at = layout.coordinates(rank);
    if (at.tensor != 0 || at.data != 0) continue;
    const auto& actions = schedule.actions[static_cast<std::size_t>(at.pipeline)];
    const auto& samples = step.samples[static_cast<std::size_t>(at.pipeline)];
    ASSERT_EQ(predicted.timeline.size(), samples.size());
    for (std::size_t i = 0; i < samples.size() && !testing::Test::HasFailure(); ++i) {
      const std::string where = fmt::format("rank {} {}", rank, to_string(actions[i]));
      expect_same(predicted.timeline[i].peak, samples[i].peak, where + " peak");
      expect_same(predicted.timeline[i].after, samples[i].after, where + " after");
    }
  }
}

/// Rows of experts are filled up, so that they follow the routing. Traffic, too.
void compare_routed(const RunConfig& config, const Communicator& communicator, const StepResult& step) {
  const Layout layout = config.layout();
  const Schedule schedule = schedule_for(config);
  const RoutedRows rows(config, schedule, step.routing,
                        layout.sender(layout.coordinates(communicator.rank())));
  const bool finds_scales =
      config.numerics.fp8.recipe == Fp8Recipe::delayed && layout.tensor > 1;  // in the first step
  EXPECT_TRUE(finds_scales ||
              same(predict_traffic(config, schedule, communicator.rank(), rows), step.traffic));
  if (communicator.rank() == 0) expect_routed_memory(config, step);
}

TEST(Fp8MemoryAgreement, ToTheByteInEveryAction) {
  const std::vector<Layout> layouts = splits(world_ranks());
  std::vector<Cell> cells = covering_cells(layouts);
  for (const Layout& layout : layouts) {
    for (Cell& cell : further_cells(layout)) cells.push_back(std::move(cell));
  }
  int compared = 0;
  for (const Cell& cell : cells) {
    if (!legal(cell.config)) continue;
    SCOPED_TRACE(cell.name);
    MpiCommunicator communicator(cell.config.layout());
    const StepResult step = one_step(cell.config, communicator);
    if (cell.config.model.mixture) {
      compare_routed(cell.config, communicator, step);
    } else if (communicator.rank() == 0) {
      compare(cell, step);
    }
    ++compared;
  }
  EXPECT_GE(compared, 2 * static_cast<int>(layouts.size()));
}

}  // namespace
}  // namespace plumbline::training::fp8_memory_agreement_test
