// Every split of the ranks and every way to run the step give the loss, the gradients and the training of one
// rank, twice the same bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/covering.hpp"
#include "tests/bench/training/support/first_rank.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::parallel_step_test {
namespace {

constexpr const char* kSchedules[] = {"gpipe", "1f1b",   "interleaved", "zb-h1",    "zb-h2",    "zb-auto",
                                      "zb-v",  "v-half", "v-min",       "dualpipe", "dualpipev"};
constexpr const char* kModels[] = {"qwen2 tied", "qwen2 with windows", "gpt2 tied", "gpt2"};

RunConfig config_of(std::size_t model, DType precision, std::size_t dropout = 0) {
  RunConfig config;
  config.model = model < 2 ? small_qwen2() : small_gpt2();
  config.model.embedding.tied = model % 2 == 0;
  config.model.layers = 9;  // stages of different lengths
  if (model == 1) {
    config.model.window.size = 10;
    config.model.window.full_layers = {true, false, false, true, true, false, true, false, true};
  }
  config.numerics.precision = precision;
  set_dropout(config, kDropouts[dropout]);
  config.batch.seq_length = 24;
  config.batch.micro_batch_size = 2;
  config.batch.global_batch_size = 32;  // enough micro-batches for DualPipe in every split of 8 ranks
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.dp.bucket_size = 20'000;  // several buckets even here
  return config;
}

/// Number formats of a cell; the loss's format does not change the single rank's computation.
struct Numbers {
  const char* name;
  DType precision;
  bool loss_fusion;
};
constexpr Numbers kNumbers[] = {
    {"fp32", DType::fp32, true}, {"bf16", DType::bf16, true}, {"bf16, loss in fp32", DType::bf16, false}};

/// Columns of the covering selection.
enum Factor : std::size_t { kLayout, kSchedule, kModel, kFormat, kSequence, kRecompute, kZero, kDropout };

struct Cell {
  std::string name;
  RunConfig config;
  double tolerance = 0;  // of a gradient, relative to its tensor's largest entry
  std::size_t reference = 0;
};

/// Empty if the sizes do not allow the schedule, or if a setting would be without effect.
std::optional<Cell> cell_of(const std::vector<Layout>& layouts, const Row& row) {
  const Layout& layout = layouts[row[kLayout]];
  if ((layout.tensor == 1 && row[kSequence] > 0) || (layout.data == 1 && row[kZero] > 0)) return {};
  const Numbers& numbers = kNumbers[row[kFormat]];
  const DType precision = numbers.precision;
  const Recomputation& recomputation = kRecomputations[row[kRecompute]];
  Cell cell;
  cell.config = config_of(row[kModel], precision, row[kDropout]);
  cell.config.numerics.cross_entropy_loss_fusion = numbers.loss_fusion;
  set_layout(cell.config, layout);
  cell.config.parallel.pp.schedule = kSchedules[row[kSchedule]];
  cell.config.parallel.sequence_parallel = row[kSequence] > 0;
  cell.config.parallel.tp.comm_overlap = row[kSequence] == 2;
  cell.config.parallel.dp.zero_stage = static_cast<int>(row[kZero]);
  set_recomputation(cell.config, recomputation);
  if (why_invalid(cell.config)) return {};
  cell.tolerance = precision == DType::fp32 ? 1e-5 : 2e-2;
  cell.reference =
      (row[kModel] * 2 + (precision == DType::fp32 ? 0 : 1)) * std::size(kDropouts) + row[kDropout];
  cell.name = fmt::format("{} tp{} pp{} dp{} {} {} sp{} recompute {} zero{} {}", kSchedules[row[kSchedule]],
                          layout.tensor, layout.pipeline, layout.data, kModels[row[kModel]], numbers.name,
                          row[kSequence], recomputation.name, row[kZero], kDropouts[row[kDropout]].name);
  return cell;
}

bool makes_a_schedule(const RunConfig& config) {
  try {
    schedule_for(config);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

TEST(ParallelStep, EveryWayGivesTheSingleRanksGradients) {
  const std::vector<Layout> layouts = layouts_of(world_ranks());
  std::vector<std::pair<std::size_t, std::size_t>> legal;
  for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
    for (std::size_t schedule = 0; schedule < std::size(kSchedules); ++schedule) {
      const auto cell = cell_of(layouts, {layout, schedule, 0, 0, 0, 0, 0, 0});
      if (cell && makes_a_schedule(cell->config)) legal.emplace_back(layout, schedule);
    }
  }
  const std::vector<std::size_t> settings = {
      std::size(kModels), std::size(kNumbers), 3, std::size(kRecomputations), 4, std::size(kDropouts)};
  const auto rows =
      covering_rows(legal, settings, [&](const Row& row) { return cell_of(layouts, row).has_value(); });

  std::map<std::size_t, StepResult> references;
  std::map<std::size_t, std::map<std::string, double>> roundings;
  // Plain steps by reference, loss, tensor ranks and overlap of their messages: overlapped products are cut
  // into rows, and oneDNN with AMX adds up in an order that depends on a product's rows.
  std::map<std::tuple<std::size_t, bool, int, bool>, StepResult> plain;
  for (const Row& row : rows) {
    const Cell cell = *cell_of(layouts, row);
    const bool rounds = cell.config.numerics.precision != DType::fp32;
    if (!references.contains(cell.reference)) {
      references[cell.reference] = step_of_first_rank([&] {
        SoloCommunicator solo;
        const StepResult alone =
            one_step(config_of(row[kModel], cell.config.numerics.precision, row[kDropout]), solo);
        if (rounds) {
          roundings[cell.reference] = errors_of(
              one_step(config_of(row[kModel], DType::fp32, row[kDropout]), solo).gradients, alone.gradients);
        }
        return alone;
      });
    }
    const StepResult& reference = references[cell.reference];
    MpiCommunicator communicator(cell.config.layout());
    const StepResult split = one_step(cell.config, communicator);
    const bool repeats = world_ranks() < 4 || (&row - rows.data()) % 3 == 0;
    const StepResult again = repeats ? one_step(cell.config, communicator) : split;
    EXPECT_NEAR(split.loss / reference.loss, 1, cell.tolerance) << cell.name;
    EXPECT_NEAR(split.gradient_norm / reference.gradient_norm, 1, cell.tolerance) << cell.name;
    EXPECT_EQ(split.loss, again.loss) << cell.name << ": two runs differ";
    EXPECT_EQ(split.gradient_norm, again.gradient_norm) << cell.name << ": two runs differ";
    EXPECT_TRUE(split.samples == again.samples) << cell.name << ": two runs differ in memory";
    const int tensor = cell.config.parallel.tensor;
    const bool overlap = cell.config.parallel.tp.comm_overlap;
    StepResult& like =
        plain[{cell.reference, cell.config.numerics.cross_entropy_loss_fusion, tensor, overlap}];
    if (rounds && like.memory.empty()) {
      RunConfig config = config_of(row[kModel], cell.config.numerics.precision, row[kDropout]);
      config.numerics.cross_entropy_loss_fusion = cell.config.numerics.cross_entropy_loss_fusion;
      config.parallel.tensor = tensor;
      config.parallel.sequence_parallel = overlap;
      config.parallel.tp.comm_overlap = overlap;
      config.parallel.world_size = world_ranks();
      MpiCommunicator replicas(config.layout());
      like = one_step(config, replicas);
    }
    if (communicator.rank() != 0) continue;
    std::string worst;
    EXPECT_LE(
        largest_share(reference.gradients, split.gradients, cell.tolerance, roundings[cell.reference], worst),
        1)
        << cell.name << ": " << worst;
    // Tensor ranks add up partial sums in an order of their own; nothing else may round otherwise.
    if (rounds) {
      EXPECT_LE(largest_error(like.gradients, split.gradients, worst), 1e-5) << cell.name << ": " << worst;
    }
    EXPECT_TRUE(split.gradients == again.gradients) << cell.name << ": two runs differ";
  }
  fmt::print("{} cells\n", rows.size());
}

std::vector<double> losses_of(RunConfig config, double learning_rate, Communicator& communicator) {
  config.measure.steps = 3;
  config.measure.warmup_steps = 0;
  config.optimizer.learning_rate = learning_rate;
  const auto operators = make_cpu_operators();
  const TrainingResult result =
      train(config, schedule_for(config), *operators, communicator, communicator, host_memory(), {});
  return result.losses;
}

TEST(ParallelStep, EveryZeroStageTrainsLikeOneRank) {
  for (const auto& [optimizer, precision] :
       {std::pair(Optimizer::adam, DType::fp32), std::pair(Optimizer::sgd, DType::bf16)}) {
    RunConfig config = config_of(0, precision, optimizer == Optimizer::adam ? 1 : 0);
    config.optimizer.kind = optimizer;
    const double rate = optimizer == Optimizer::adam ? 1e-2 : 10.0;
    const double tolerance = precision == DType::fp32 ? 1e-5 : 1e-3;
    const auto alone = [&](double learning_rate) {
      SoloCommunicator solo;
      return losses_of(config, learning_rate, solo);
    };
    const std::vector<double> expected = losses_of_first_rank([&] { return alone(rate); });
    const std::vector<double> unmoved = losses_of_first_rank([&] { return alone(0); });
    // An update that is missing somewhere would show.
    ASSERT_GT(std::abs(expected[1] / unmoved[1] - 1), 10 * tolerance);
    ASSERT_GT(std::abs(expected[2] / unmoved[2] - 1), 10 * tolerance);
    for (const Layout& layout : layouts_of(world_ranks())) {
      for (int zero = 0; zero <= (layout.data > 1 ? 3 : 0); ++zero) {
        if (world_ranks() == 8 && (layout.data == 8 || zero == 0)) continue;  // enough in fewer ranks
        set_layout(config, layout);
        config.parallel.dp.zero_stage = zero;
        MpiCommunicator communicator(config.layout());
        const std::vector<double> found = losses_of(config, rate, communicator);
        for (std::size_t step = 0; step < expected.size(); ++step) {
          EXPECT_NEAR(found[step] / expected[step], 1, tolerance) << fmt::format(
              "tp{} pp{} dp{} zero{} step {}", layout.tensor, layout.pipeline, layout.data, zero, step);
        }
      }
    }
  }
}

/// Saves the weights after three steps under `folder` and the last gradients next to them.
void train_and_save(RunConfig config, double learning_rate, const std::string& folder,
                    Communicator& communicator) {
  config.files.save_weights = folder;
  config.files.save_gradients = folder + ".safetensors";
  losses_of(config, learning_rate, communicator);
}

TEST(ParallelStep, SavedFilesAreThoseOfOneRank) {
  const int ranks = world_ranks();
  const std::string folder = fmt::format("{}/plumbline-saved-{}", testing::TempDir(), ranks);
  for (const DType precision : {DType::fp32, DType::bf16}) {
    RunConfig config = config_of(0, precision);
    config.optimizer.kind = Optimizer::sgd;
    const bool exact = precision == DType::fp32;
    const double tolerance = exact ? 5e-6 : 0.1;  // fresh biases are all noise
    // Large steps multiply rounding: at 1 the gradients of eight tensor ranks are 1.4e-5 off in fp32, at 0.3
    // they are 2e-6.
    const double rate = exact ? 0.3 : 1e-3;
    for (const Layout& layout : layouts_of(ranks)) {
      if (layout.pipeline > 4 || (ranks == 8 && precision == DType::bf16)) continue;
      RunConfig split = config;
      set_layout(split, layout);
      split.parallel.dp.zero_stage = 3;
      split.parallel.sequence_parallel = true;
      split.parallel.pp.schedule = layout.pipeline % 2 == 0 ? "dualpipe" : "zb-h1";
      MpiCommunicator communicator(split.layout());
      train_and_save(split, rate, folder, communicator);
      // The saved weights loaded into this split again and into one rank give the same gradients.
      split.files.weights = folder;
      const StepResult reloaded = one_step(split, communicator);
      config.files.weights = communicator.rank() == 0 ? folder : "";
      on_first_rank([&] {
        SoloCommunicator solo;
        const StepResult alone = one_step(config, solo);
        config.files.weights.clear();
        train_and_save(config, rate, folder + "-alone", solo);
        const std::string name =
            fmt::format("tp{} pp{} dp{} {}", layout.tensor, layout.pipeline, layout.data, name_of(precision));
        std::string worst;
        EXPECT_LE(largest_error(alone.gradients, reloaded.gradients, worst), tolerance) << name << worst;
        EXPECT_LE(largest_error(tensors_of(folder + "-alone.safetensors"),
                                tensors_of(folder + ".safetensors"), worst),
                  tolerance)
            << name << worst;
        EXPECT_LE(largest_error(tensors_of(folder + "-alone"), tensors_of(folder), worst), tolerance)
            << name << worst;
        if (exact && ranks == 1) {  // an update that is missing would show
          train_and_save(config, 0, folder, solo);
          for (const auto& [tensor, error] : errors_of(tensors_of(folder), tensors_of(folder + "-alone"))) {
            EXPECT_GT(error, 6 * tolerance) << tensor;
          }
        }
        for (const char* ending : {"", "-alone", ".safetensors", "-alone.safetensors"}) {
          std::filesystem::remove_all(folder + ending);
        }
      });
    }
  }
}

TEST(ParallelStep, OtherActionsAreNamed) {
  if (world_ranks() > 1) GTEST_SKIP() << "the message is the same on every rank: one is enough";
  const RunConfig config = config_of(0, DType::fp32);
  const Schedule schedule = schedule_for(config);
  const auto operators = make_cpu_operators();
  SoloCommunicator solo;
  Arena arena({}, host_memory());
  RankStages stages(config, schedule, *operators, solo, arena);
  const auto message = [&](const Action& action) {
    try {
      stages.run(action);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message({ActionType::vocab_forward, false, 0, 3}).find("0S3 is not executable"),
            std::string::npos);
  EXPECT_NE(message({ActionType::forward, false, 7, 0}).find("stage 7 is not on this rank"),
            std::string::npos);
  EXPECT_NE(message({ActionType::backward, false, 0, 1}).find("0B1"), std::string::npos);
}

}  // namespace
}  // namespace plumbline::training::parallel_step_test
