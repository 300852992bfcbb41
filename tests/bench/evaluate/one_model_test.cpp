// search, predict, oom and the rows of a table give the same seconds and bytes, on random legal
// configurations. PLUMBLINE_CONFIGURATIONS draws more than the few of a quick run, PLUMBLINE_SEED others.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/published/predict_run.hpp"
#include "analysis/search/evaluator.hpp"
#include "bench/evaluate/record_parts.hpp"
#include "bench/matrix/oom_table.hpp"
#include "bench/plan/plan.hpp"
#include "bench/plan/schedule_makers.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline::one_model_test {
namespace {

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

class Draws {
 public:
  explicit Draws(unsigned seed) : random_(seed) {}

  template <class T>
  T any(std::initializer_list<T> choices) {
    return *(choices.begin() + below(static_cast<int>(choices.size())));
  }
  template <class T>
  const T& any(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(below(static_cast<int>(choices.size())))];
  }
  bool coin() { return below(2) == 1; }
  int below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random_); }

 private:
  std::mt19937 random_;
};

/// Any keys, legal or not.
SearchKeys any_keys(Draws& draws) {
  SearchKeys keys;
  keys.tensor = draws.any({1, 2, 4, 8});
  keys.pipeline = draws.any({1, 2, 4, 8});
  keys.data = draws.any({1, 2, 4, 16});
  keys.micro_batch = draws.any({1, 2, 4});
  keys.chunks = draws.any({1, 1, 2, 4});
  keys.schedule = static_cast<std::uint8_t>(draws.below(static_cast<int>(search_schedules().size())));
  keys.sequence_parallel = draws.coin();
  keys.recompute = draws.any({Recompute::none, Recompute::selective, Recompute::full});
  keys.recompute_layers = draws.any({1, 2, 3});
  keys.zero = draws.below(4);
  keys.vocabulary = draws.any({VocabPasses::none, VocabPasses::none, VocabPasses::two_barriers,
                               VocabPasses::one_barrier, VocabPasses::interlaced});
  keys.balanced = draws.coin();
  keys.half_gradients = draws.coin();
  return keys;
}

RunConfig any_config(Draws& draws) {
  RunConfig config;
  config.model = *find_preset(draws.any(preset_names()));
  config.machine.hardware = draws.any(hardware_preset_names());
  std::vector<std::string> software;
  for (const auto& [name, traits] : built_in_profiles().software) software.push_back(name);
  config.machine.software = draws.coin() ? "plumbline" : draws.any(software);
  config.numerics.precision = draws.any({DType::bf16, DType::bf16, DType::fp16});
  config.batch.seq_length = draws.any<std::int64_t>({512, 2048, 8192});
  config.batch.global_batch_size = draws.any<std::int64_t>({16, 64, 128});
  return config;
}

TEST(OneModel, SearchPredictOomAndValidateGiveTheSameSecondsAndBytes) {
  const int wanted = from_environment("PLUMBLINE_CONFIGURATIONS", 60);
  Draws draws(static_cast<unsigned>(from_environment("PLUMBLINE_SEED", 20261122)));
  int compared = 0;
  for (int tries = 0; compared < wanted && tries < 200 * wanted; ++tries) {
    RunConfig config = any_config(draws);
    const SearchKeys keys = any_keys(draws);
    set_keys(keys, config);
    if (why_invalid(config) || why_unpredictable(config)) continue;
    const HardwareProfile& hardware = *find_hardware_preset(config.machine.hardware);
    if (why_unpredictable(config, hardware)) continue;
    SearchSchedules schedules(step_for);
    Evaluator evaluator(config, hardware, schedules);
    const auto bounds = evaluator.bounds(keys);
    Prediction prediction;
    try {
      prediction = predict(config, step_for(config), hardware);
    } catch (const InputError& error) {
      EXPECT_FALSE(bounds) << "search has a step that predict has not: " << error.what();
      continue;
    }
    ++compared;
    SCOPED_TRACE(config.machine.software + ", " + config.model.name + ", " + config.parallel.pp.schedule);
    ASSERT_TRUE(bounds);
    EXPECT_EQ(bounds->peak, prediction.memory.peak);
    EXPECT_EQ(bounds->fits, prediction.fit.fits);
    EXPECT_LE(bounds->at_least, prediction.time.step);
    const Candidate candidate = evaluator.predicted(keys);
    EXPECT_EQ(candidate.time.step, prediction.time.step);
    EXPECT_EQ(candidate.peak, prediction.memory.peak);
    // A step that is written down whole gives the same as one that repeats itself.
    const Prediction whole = predict(config, schedule_for(config), hardware);
    EXPECT_EQ(whole.time.step, prediction.time.step);
    EXPECT_EQ(whole.memory.peak, prediction.memory.peak);
    // A cell of `matrix` and `oom`.
    Record record;
    record.prediction = report_of(prediction, config, step_for(config));
    EXPECT_EQ(record.prediction->time.step, prediction.time.step);
    EXPECT_EQ(candidate.fit.needed, prediction.fit.needed);
    const OomRow row = row_of({}, record, Fit{}, std::nullopt, true);
    ASSERT_TRUE(row.predicted);
    EXPECT_EQ(row.predicted->peak, bounds->peak);
    EXPECT_EQ(row.predicted->status == Status::ok, bounds->fits);
    PublishedRun run;
    run.config = config;
    const PredictedRun published = predict_run(run, built_in_profiles(), schedule_makers());
    if (!published.unmodelled.empty()) continue;
    EXPECT_EQ(published.step_s, prediction.time.step.value);
    EXPECT_EQ(published.peak_bytes, static_cast<double>(prediction.memory.peak.value));
  }
  EXPECT_EQ(compared, wanted) << "too few of the drawn configurations are legal";
}

}  // namespace
}  // namespace plumbline::one_model_test
