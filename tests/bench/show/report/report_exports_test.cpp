// Exports for other programs, and the comparison of two sets of records.
#include "bench/show/report/exports.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/show/history/regression.hpp"
#include "core/base/error.hpp"
#include "tests/bench/record/record_support.hpp"

namespace plumbline::report_exports_test {
namespace {

using testing::HasSubstr;

Record cell(const std::string& id, double step, std::int64_t peak = 1000) {
  Record record = sample_record(id);
  record.measurement->time.step = {step};
  record.measurement->steps.clear();
  record.probed.reset();
  record.measurement->memory.peak = {peak};
  return record;
}

TEST(MegatronBridge, ItsColumnsThenOurs) {
  Record record = sample_record("a");
  record.config = {
      {"model", "a, \"model\""},   {"world_size", "8"},       {"precision", "bf16"},
      {"global_batch_size", "64"}, {"micro_batch_size", "2"}, {"data_parallel_size", "4"},
      {"seq_length", "1024"},      {"zero_stage", "3"},       {"tensor_model_parallel_size", "2"}};
  const std::string csv = to_megatron_bridge_csv({record, Record{}});
  EXPECT_THAT(csv, testing::StartsWith(
                       "Model,#-GPUs,Precision,GBS,MBS,Sequence Length,FSDP,TP,PP,CP,VP,EP,GA,Tokens / "
                       "sec / GPU,Model TFLOP / sec / GPU,"));
  EXPECT_THAT(csv, HasSubstr("\r\n\"a, \"\"model\"\"\",8,bf16,64,2,1024,1,2,,,,,8,500,0.1,,3,ok,0.5,0.55,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  EXPECT_THAT(csv,
              HasSubstr(",Predicted Tokens / sec / GPU,Predicted Model TFLOP / sec / GPU,Predicted MFU\r\n"));
  EXPECT_THAT(csv, HasSubstr(",500,0.1,0.2\r\n"));
}

TEST(GoogleBenchmark, OneBenchmarkPerMeasurementAndPrediction) {
  Record predicted = sample_record("b");
  predicted.measurement.reset();
  const auto json = nlohmann::json::parse(to_google_benchmark_json({cell("a", 0.5), predicted}));
  ASSERT_EQ(json["benchmarks"].size(), 3U);
  const auto& first = json["benchmarks"][0];
  EXPECT_EQ(first["name"], "measured/a");
  EXPECT_EQ(first["run_type"], "iteration");
  EXPECT_DOUBLE_EQ(first["real_time"], 500);
  EXPECT_DOUBLE_EQ(first["tokens_per_s_per_gpu"], 500);
  EXPECT_DOUBLE_EQ(first["model_tflops_per_gpu"], 0.1);
  EXPECT_EQ(first["time_unit"], "ms");
  EXPECT_EQ(json["benchmarks"][2]["name"], "predicted/b");
}

TEST(Regression, ToleranceDecides) {
  struct Case {
    const char* name;
    Record before;
    Record after;
    std::vector<Change::Kind> kinds;
  };
  using enum Change::Kind;
  Record failed = cell("a", 1);
  failed.status = Status::failed;
  failed.measurement.reset();
  Record predicted_too = cell("a", 0.8);
  predicted_too.prediction->time.step = predicted_too.prediction->time.step * 0.8;
  const std::vector<Case> cases = {
      {"the same", cell("a", 1), cell("a", 1), {}},
      {"a little slower", cell("a", 1), cell("a", 1.049), {}},
      {"slower", cell("a", 1), cell("a", 1.06), {loss}},
      {"more memory", cell("a", 1), cell("a", 1, 1100), {loss}},
      {"faster without a reason", cell("a", 1), cell("a", 0.8), {unexplained_gain}},
      {"faster as predicted", cell("a", 1), predicted_too, {explained_gain}},
      {"slower with less memory", cell("a", 1), cell("a", 2, 500), {loss, unexplained_gain}},
      {"fails", cell("a", 1), failed, {loss}},
      {"runs again", failed, cell("a", 1), {unexplained_gain}},
      {"gone", cell("a", 1), cell("b", 1), {loss}},
  };
  for (const Case& c : cases) {
    const Regression found = compare_records({c.before}, {c.after}, 0.05);
    std::vector<Change::Kind> kinds;
    for (const Change& change : found.changes) kinds.push_back(change.kind);
    EXPECT_EQ(kinds, c.kinds) << c.name;
    EXPECT_EQ(found.any_loss(), !kinds.empty() && kinds[0] == loss) << c.name;
    EXPECT_THAT(to_text(found, 0.05), HasSubstr(" compared, tolerance 5 %")) << c.name;
  }
}

TEST(Regression, NamesWhatChangedOfTheMachineInEveryForm) {
  Record after = cell("a", 1.06);
  after.machine.versions = {{"plumbline", "0.2.0"}, {"openmpi", "4.1.4"}};
  after.machine.cpu = "another <CPU>";
  const Regression found = compare_records({cell("a", 1)}, {after}, 0.05);
  ASSERT_EQ(found.machine.size(), 3U);
  const std::string text = to_text(found, 0.05);
  for (const char* line :
       {"machine: cpu: a CPU -> another <CPU>\n", "machine: versions.openmpi: none -> 4.1.4\n",
        "machine: versions.plumbline: 0.1.0 -> 0.2.0\n"})
    EXPECT_THAT(text, HasSubstr(line));
  const auto json = nlohmann::json::parse(to_json(found, 0.05));
  EXPECT_EQ(json["losses"], 1);
  EXPECT_EQ(json["changes"][0]["kind"], "loss");
  EXPECT_DOUBLE_EQ(json["changes"][0]["after"], 1.06);
  EXPECT_EQ(json["machine"][2]["after"], "0.2.0");
  const std::string page = to_html(found, 0.05, "old and <new>");
  EXPECT_THAT(page, HasSubstr("<td>another &lt;CPU&gt;</td>"));
  EXPECT_THAT(page, HasSubstr("old and &lt;new&gt;"));
  EXPECT_THAT(page, HasSubstr("1 cell compared, tolerance 5 %: 1 worse"));
  EXPECT_TRUE(compare_records({cell("a", 1)}, {cell("a", 1)}, 0.05).machine.empty());
}

/// Steps of about `step` seconds on a machine where everything takes `slow` times as long as when it was
/// calibrated.
Record steps_of_cell(double step, double slow, double apart = 0.01) {
  Record record = cell("a", step);
  for (const double each : {1 - apart, 1.0, 1 + apart}) record.measurement->steps.push_back({{step * each}});
  record.probed = ProbedReport{{}, {}, every_class(slow), 1, record.prediction->time};
  record.probed->time.step = record.probed->time.step * slow;
  return record;
}

// Neither a slow machine nor steps that differ among themselves are a regression; the same work taking longer
// is.
TEST(Regression, OnlyBeyondTheNoise) {
  struct Case {
    const char* name;
    Record before, after;
    bool loss;
  };
  Record disturbed = steps_of_cell(1.5, 1);
  disturbed.measurement->disturbance.disturbed = true;
  const std::vector<Case> cases = {
      {"8 % slower", steps_of_cell(1, 1), steps_of_cell(1.08, 1), true},
      {"8 % slower on a slow machine", steps_of_cell(1.2, 1.2), steps_of_cell(1.2 * 1.08, 1.2), true},
      {"a machine that got slower", steps_of_cell(1, 1), steps_of_cell(1.2, 1.2), false},
      {"a faster machine hides nothing", steps_of_cell(1.2, 1.2), steps_of_cell(1.2 * 1.1, 1.2), true},
      {"steps of any length", steps_of_cell(1, 1, 0.2), steps_of_cell(1.1, 1, 0.2), false},
      {"somebody else's fault", steps_of_cell(1, 1), disturbed, false},
      {"the same", steps_of_cell(1, 1), steps_of_cell(1.01, 1), false},
  };
  for (const Case& c : cases) {
    const Regression found = compare_records({c.before}, {c.after}, 0.05);
    EXPECT_EQ(found.any_loss(), c.loss) << c.name;
    EXPECT_EQ(found.changes.size(), c.loss ? 1U : 0U) << c.name;
  }
  EXPECT_THAT(to_text(compare_records({cases[2].before}, {cases[2].after}, 0.05), 0.05),
              HasSubstr("; 1 more within machine noise"));
}

TEST(Regression, ChangesAreSaidInWords) {
  const std::string text =
      to_text(compare_records({cell("a", 1)}, {cell("a", 1.5), cell("new", 1)}, 0.05), 0.05);
  EXPECT_THAT(text, HasSubstr("LOSS                 step time    a: 1.000 s -> 1.500 s (+50.0 %)\n"));
  EXPECT_THAT(text, HasSubstr("1 cell compared, tolerance 5 %: 1 worse, 0 better without a reason in the "
                              "prediction; 1 cell new"));
}

TEST(Regression, Tolerance) {
  EXPECT_DOUBLE_EQ(parse_tolerance("5%"), 0.05);
  EXPECT_DOUBLE_EQ(parse_tolerance("2.5 %"), 0.025);
  EXPECT_DOUBLE_EQ(parse_tolerance("0.1"), 0.1);
  for (const char* wrong : {"", "%", "x", "5%%", "-1%", "101%", "1", "nan", "1e999", "5 apples"})
    EXPECT_THROW(parse_tolerance(wrong), InputError) << wrong;
}

}  // namespace
}  // namespace plumbline::report_exports_test
