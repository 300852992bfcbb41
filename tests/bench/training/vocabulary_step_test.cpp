// A vocabulary split over all ranks of the model. Every method and split gives the loss and the gradients of
// one rank, twice the same bit for bit, with the predicted memory and messages.
#include <fmt/format.h>
#include <gtest/gtest.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/memory/memory_model.hpp"
#include "analysis/work/traffic.hpp"
#include "bench/plan/plan.hpp"
#include "bench/training/trainer/host_values.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/covering.hpp"
#include "tests/bench/training/support/first_rank.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::vocabulary_step_test {
namespace {

struct Method {
  const char* schedule;
  const char* vocabulary;
};
constexpr Method kMethods[] = {{"1f1b", "vocab-1"},
                               {"1f1b", "vocab-2"},
                               {"1f1b", "interlaced"},
                               {"v-half", "vocab-1"},
                               {"v-half", "vocab-2"}};
constexpr const char* kModels[] = {"qwen2 tied", "qwen2", "gpt2 tied", "gpt2"};
/// Ids and how they are padded: shards of odd sizes, the last one without a real id, several without.
struct Vocabulary {
  std::int64_t ids;
  std::int64_t divisible_by;
  bool masked;
};
constexpr Vocabulary kVocabularies[] = {{203, 1, false}, {203, 8, true}, {203, 8, false}, {11, 8, false}};

/// A file of token ids, and one that marks those that count.
struct DataFiles {
  static constexpr std::int64_t kTokens = 311;
  std::string tokens = fmt::format("{}/plumbline-vocabulary-{}.bin", testing::TempDir(), world_ranks());
  std::string mask = tokens + ".mask";

  DataFiles() {
    if (rank() == 0) {
      std::ofstream ids(tokens, std::ios::binary);
      std::ofstream counts(mask, std::ios::binary);
      for (std::int64_t i = 0; i < kTokens; ++i) {
        const auto id = static_cast<std::int32_t>(i * i * 7 % 203);
        ids.write(reinterpret_cast<const char*>(&id), sizeof id);
        counts.put(i % 5 == 0 || (i > 40 && i < 70) ? '\0' : '\1');
      }
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~DataFiles() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank() != 0) return;
    std::filesystem::remove(tokens);
    std::filesystem::remove(mask);
  }
  DataFiles(const DataFiles&) = delete;
  DataFiles& operator=(const DataFiles&) = delete;
  static int rank() {
    const int rank = world_rank();
    return rank;
  }
};

/// Settings for which a single rank computes the same.
struct Task {
  std::size_t model, precision, vocabulary, dropout;
  bool operator<(const Task& other) const {
    return std::tie(model, precision, vocabulary, dropout) <
           std::tie(other.model, other.precision, other.vocabulary, other.dropout);
  }
};

RunConfig config_of(const Task& task, const DataFiles& files) {
  RunConfig config;
  config.model = task.model < 2 ? small_qwen2() : small_gpt2();
  config.model.embedding.tied = task.model % 2 == 0;
  config.model.layers = 9;  // stages of different lengths
  const Vocabulary& vocabulary = kVocabularies[task.vocabulary];
  config.model.vocab = vocabulary.ids;
  config.parallel.make_vocab_size_divisible_by = vocabulary.divisible_by;
  config.numerics.precision = task.precision == 0 ? DType::fp32 : DType::bf16;
  set_dropout(config, kDropouts[task.dropout]);
  config.batch.seq_length = 24;
  config.batch.global_batch_size = 16;
  config.parallel.dp.bucket_size = 20'000;  // several buckets even here
  if (vocabulary.masked) {
    config.files.data = files.tokens;
    config.files.loss_mask = files.mask;
  }
  return config;
}

/// Number formats of a cell; the loss's format does not change the single rank's computation.
struct Numbers {
  const char* name;
  std::size_t precision;
  bool loss_fusion;
};
constexpr Numbers kNumbers[] = {{"fp32", 0, true}, {"bf16", 1, true}, {"bf16, loss in fp32", 1, false}};

/// Columns of the covering selection.
enum Factor : std::size_t { kLayout, kMethod, kModel, kFormat, kVocabulary, kRecompute, kZero, kDropout };

struct Cell {
  std::string name;
  RunConfig config;
  Task task;
  double tolerance = 0;  // of a gradient, relative to its tensor's largest entry
};

/// Empty if the sizes do not allow the schedule, or if a setting would be without effect.
std::optional<Cell> cell_of(const std::vector<Layout>& layouts, const DataFiles& files, const Row& row) {
  const Layout& layout = layouts[row[kLayout]];
  if (layout.data == 1 && row[kZero] > 0) return {};
  const Recomputation& recomputation = kRecomputations[row[kRecompute]];
  const Method& method = kMethods[row[kMethod]];
  Cell cell;
  const Numbers& numbers = kNumbers[row[kFormat]];
  cell.task = {row[kModel], numbers.precision, row[kVocabulary], row[kDropout]};
  cell.config = config_of(cell.task, files);
  cell.config.numerics.cross_entropy_loss_fusion = numbers.loss_fusion;
  set_layout(cell.config, layout);
  cell.config.parallel.pp.schedule = method.schedule;
  cell.config.parallel.pp.vocab_parallel = parse_vocab_parallel(method.vocabulary);
  cell.config.parallel.dp.zero_stage = static_cast<int>(row[kZero]);
  cell.config.parallel.sequence_parallel = (row[kModel] + row[kZero] + row[kDropout]) % 2 == 0;
  cell.config.parallel.tp.comm_overlap = cell.config.parallel.sequence_parallel && row[kRecompute] % 2 == 0;
  if (row[kModel] % 2 == 0 && row[kZero] > 0) cell.config.parallel.dp.overlap_param_gather = true;
  if (row[kZero] == 3 && layout.data > 2) cell.config.parallel.dp.hpz_partition_size = 2;
  set_recomputation(cell.config, recomputation);
  RunConfig unmasked = cell.config;  // a mask is configured with a teacher only
  unmasked.files.loss_mask.clear();
  if (why_invalid(unmasked)) return {};
  cell.tolerance = numbers.precision == 0 ? 1e-5 : 4e-2;  // few ids: small gradients
  cell.name = fmt::format("{} {} tp{} pp{} dp{} sp{:d} {} {} {} ids{} recompute {} zero{} {}",
                          method.schedule, method.vocabulary, layout.tensor, layout.pipeline, layout.data,
                          cell.config.parallel.sequence_parallel, kModels[row[kModel]], numbers.name,
                          cell.config.model.vocab, cell.config.files.loss_mask.empty() ? "" : " masked",
                          recomputation.name, row[kZero], kDropouts[row[kDropout]].name);
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

/// A covering selection over all layouts and methods.
std::vector<Cell> cells_of(int ranks, const DataFiles& files) {
  const std::vector<Layout> layouts = layouts_of(ranks);
  std::vector<std::pair<std::size_t, std::size_t>> legal;
  for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
    for (std::size_t method = 0; method < std::size(kMethods); ++method) {
      const auto cell = cell_of(layouts, files, {layout, method, 0, 0, 0, 0, 0, 0});
      if (cell && makes_a_schedule(cell->config)) legal.emplace_back(layout, method);
    }
  }
  const std::vector<std::size_t> settings = {
      std::size(kModels),  std::size(kNumbers), std::size(kVocabularies), std::size(kRecomputations), 4,
      std::size(kDropouts)};
  std::vector<Cell> cells;
  for (const Row& row : covering_rows(legal, settings, [&](const Row& candidate) {
         return cell_of(layouts, files, candidate).has_value();
       })) {
    cells.push_back(*cell_of(layouts, files, row));
  }
  return cells;
}

void expect_as_predicted(const Cell& cell, const Schedule& schedule, const StepResult& found) {
  const MemoryPrediction predicted = predict_memory(cell.config, schedule, MemoryDetail::timeline);
  const Layout layout = cell.config.layout();
  for (int rank = 0; rank < layout.world(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    for (int i = 0; i < kCategories; ++i) {
      const auto category = static_cast<Category>(i);
      EXPECT_EQ(predicted.of_rank(rank).peak[category].value, found.memory[r].at_peak[category].value)
          << cell.name << " rank " << rank << " " << name_of(category);
    }
    const Coordinates at = layout.coordinates(rank);
    if (at.tensor != 0 || at.data != 0) continue;
    const auto& samples = found.samples[static_cast<std::size_t>(at.pipeline)];
    const auto& timeline = predicted.of_rank(rank).timeline;
    ASSERT_EQ(samples.size(), timeline.size()) << cell.name;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const std::string action = to_string(schedule.actions[static_cast<std::size_t>(at.pipeline)][i]);
      ASSERT_TRUE(samples[i] == timeline[i])
          << fmt::format("{} rank {} {}: after it predicted {}, found {} bytes", cell.name, rank, action,
                         timeline[i].after.total().value, samples[i].after.total().value);
    }
  }
}

TEST(VocabularyStep, EveryWayGivesTheSingleRanksGradients) {
  const DataFiles files;
  const std::vector<Cell> cells = cells_of(world_ranks(), files);
  std::map<Task, StepResult> references;
  std::map<Task, std::map<std::string, double>> roundings;
  for (const Cell& cell : cells) {
    SCOPED_TRACE(cell.name);
    const Schedule schedule = schedule_for(cell.config);
    MpiCommunicator communicator(cell.config.layout());
    const StepResult split = one_step(cell.config, schedule, communicator);
    const bool repeats = world_ranks() < 8 || (&cell - cells.data()) % 3 == 0;
    const StepResult again = repeats ? one_step(cell.config, schedule, communicator) : split;
    EXPECT_EQ(split.loss, again.loss) << "two runs differ";
    EXPECT_EQ(split.gradient_norm, again.gradient_norm) << "two runs differ";
    EXPECT_TRUE(split.samples == again.samples) << "two runs differ in memory";
    EXPECT_TRUE(same(split.traffic,
                     predict_traffic(cell.config, schedule)[static_cast<std::size_t>(communicator.rank())]));
    if (communicator.rank() != 0) continue;
    expect_as_predicted(cell, schedule, split);
    StepResult& reference = references[cell.task];
    if (reference.memory.empty()) {
      SoloCommunicator solo;
      reference = one_step(config_of(cell.task, files), solo);
      if (cell.config.numerics.precision != DType::fp32) {
        RunConfig exact = config_of(cell.task, files);
        exact.numerics.precision = DType::fp32;
        roundings[cell.task] = errors_of(one_step(exact, solo).gradients, reference.gradients);
      }
    }
    EXPECT_NEAR(split.loss / reference.loss, 1, cell.tolerance);
    EXPECT_NEAR(split.gradient_norm / reference.gradient_norm, 1, cell.tolerance);
    std::string worst;
    EXPECT_LE(
        largest_share(reference.gradients, split.gradients, cell.tolerance, roundings[cell.task], worst), 1)
        << worst;
    EXPECT_TRUE(split.gradients == again.gradients) << "two runs differ";
  }
  if (DataFiles::rank() == 0) fmt::print("{} cells\n", cells.size());
}

/// `stages` stages for the layers of config_of, none on the last.
std::string none_on_the_last(int stages) {
  std::string layers;
  for (int stage = 0; stage + 1 < stages; ++stage) {
    const int rest = 9 % (stages - 1);
    layers += fmt::format("{},", 9 / (stages - 1) + (stage < rest ? 1 : 0));
  }
  return layers + "0";
}

TEST(VocabularyStep, ALastStageMayBeWithoutLayers) {
  const DataFiles files;
  constexpr Method kOthers[] = {{"1f1b", "none"},    {"zb-h1", "none"},   {"zb-v", "none"},
                                {"1f1b", "vocab-1"}, {"1f1b", "vocab-2"}, {"v-half", "vocab-2"}};
  std::size_t variant = 0;
  for (const Method& method : kOthers) {
    for (const Layout& layout : layouts_of(world_ranks())) {
      const bool v_shaped = method.schedule[0] == 'v' || std::string(method.schedule) == "zb-v";
      const int stages = layout.pipeline * (v_shaped ? 2 : 1);
      if (stages == 1 || stages > 9) continue;
      ++variant;
      const Task task{variant % 4, variant / 2 % 2, 0, variant / 3 % 2};
      Cell cell;
      cell.config = config_of(task, files);
      set_layout(cell.config, layout);
      cell.config.parallel.pp.schedule = method.schedule;
      cell.config.parallel.pp.vocab_parallel = parse_vocab_parallel(method.vocabulary);
      cell.config.parallel.pp.layer_distribution = none_on_the_last(stages);
      cell.config.parallel.sequence_parallel = variant % 2 == 0;
      cell.config.recompute.granularity = kRecomputations[variant % 3].granularity;
      cell.config.parallel.dp.zero_stage = layout.data > 1 ? static_cast<int>(variant % 4) : 0;
      cell.name =
          fmt::format("{} {} tp{} pp{} dp{} layers {} model {} zero{} {}", method.schedule, method.vocabulary,
                      layout.tensor, layout.pipeline, layout.data, cell.config.parallel.pp.layer_distribution,
                      task.model, cell.config.parallel.dp.zero_stage, kDropouts[task.dropout].name);
      SCOPED_TRACE(cell.name);
      ASSERT_FALSE(why_invalid(cell.config)) << *why_invalid(cell.config);
      const Schedule schedule = schedule_for(cell.config);
      MpiCommunicator communicator(cell.config.layout());
      const StepResult split = one_step(cell.config, schedule, communicator);
      if (communicator.rank() != 0) continue;
      expect_as_predicted(cell, schedule, split);
      SoloCommunicator solo;
      std::string worst;
      EXPECT_LE(largest_error(one_step(config_of(task, files), solo).gradients, split.gradients, worst),
                task.precision == 0 ? 1e-5 : 4e-2)
          << worst;
    }
  }
}

std::vector<double> losses_of(RunConfig config, double learning_rate, Communicator& communicator,
                              VocabularySeconds* waits = nullptr) {
  config.measure.steps = 3;
  config.measure.warmup_steps = 0;
  config.optimizer.learning_rate = learning_rate;
  const auto operators = make_cpu_operators();
  const TrainingResult result =
      train(config, schedule_for(config), *operators, communicator, communicator, host_memory(), {});
  if (waits != nullptr) *waits = result.vocabulary_waits;
  return result.losses;
}

TEST(VocabularyStep, TrainsLikeOneRank) {
  const DataFiles files;
  for (const std::size_t model : {0, 3}) {
    RunConfig config = config_of({model, 0, 0, model == 3 ? 1U : 0U}, files);
    const std::vector<double> expected = losses_of_first_rank([&] {
      SoloCommunicator solo;
      return losses_of(config, 1e-2, solo);
    });
    for (const Method& method : kMethods) {
      for (const Layout& layout : layouts_of(world_ranks())) {
        const bool v_shaped = std::string(method.schedule) == "v-half";
        if (layout.pipeline == 1 || layout.data > 2 || (v_shaped && layout.pipeline == 8)) continue;
        if (world_ranks() == 8 && (layout.data == 1 || model == 0)) continue;  // enough in fewer ranks
        RunConfig split = config;
        set_layout(split, layout);
        split.parallel.pp.schedule = method.schedule;
        split.parallel.pp.vocab_parallel = parse_vocab_parallel(method.vocabulary);
        split.parallel.dp.zero_stage = model == 0 ? 1 : 3;
        MpiCommunicator communicator(split.layout());
        VocabularySeconds waits{};
        const std::vector<double> found = losses_of(split, 1e-2, communicator, &waits);
        for (std::size_t step = 0; step < expected.size(); ++step) {
          EXPECT_NEAR(found[step] / expected[step], 1, 1e-5)
              << fmt::format("{} {} tp{} pp{} dp{} step {}", method.schedule, method.vocabulary,
                             layout.tensor, layout.pipeline, layout.data, step);
        }
        double waited = 0;
        for (const Seconds call : waits) {
          EXPECT_GE(call.value, 0);
          waited += call.value;
        }
        EXPECT_GT(waited, 0);
      }
    }
  }
}

TEST(VocabularyStep, SavedFilesAreThoseOfOneRank) {
  const int ranks = world_ranks();
  if (ranks == 1) GTEST_SKIP() << "needs ranks";
  const DataFiles files;
  const std::string folder = fmt::format("{}/plumbline-vocabulary-saved-{}", testing::TempDir(), ranks);
  RunConfig split = config_of({1, 0, 2, 0}, files);
  set_layout(split, {1, ranks > 4 ? 4 : ranks, ranks > 4 ? 2 : 1});
  split.parallel.pp.schedule = "v-half";
  split.parallel.pp.vocab_parallel = VocabPasses::one_barrier;
  split.files.save_weights = folder;
  MpiCommunicator communicator(split.layout());
  losses_of(split, 1e-2, communicator);
  split.files.weights = folder;
  const StepResult reloaded = one_step(split, communicator);
  if (communicator.rank() == 0) {
    RunConfig alone = config_of({1, 0, 2, 0}, files);
    alone.files.weights = folder;
    SoloCommunicator solo;
    expect_gradients(one_step(alone, solo).gradients, reloaded.gradients, 1e-5);
    std::filesystem::remove_all(folder);
  }
  communicator.barrier(Group::world);
}

}  // namespace
}  // namespace plumbline::training::vocabulary_step_test
