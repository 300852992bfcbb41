// Visual output of `run`, `simulate` and `matrix`: traces with counters and arrows, timelines in the terminal
// and in files. On the emulated backend, which runs the real code and messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>
#include <set>
#include <sstream>
#include <string>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::run_views_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class Views : public ProgramFolder {
 protected:
  Views() {
    write("run.yaml",
          "model: {model_type: qwen2, num_hidden_layers: 4, hidden_size: 64, num_attention_heads: 4,\n"
          "        num_key_value_heads: 2, intermediate_size: 96, vocab_size: 128, max_position_embeddings: "
          "64,\n"
          "        rms_norm_eps: 1.0e-6, tie_word_embeddings: true}\n"
          "seq_length: 16\nglobal_batch_size: 4\nprecision: bf16\nsteps: 2\nbackend: emulated\n"
          "hardware: h100-sxm-80gb\n");
    write("costs.json", R"({"stages": [{"forward_us": 100, "backward_us": 200}]})");
  }

  /// Standard output of a command that ends well.
  std::string plumbline(const std::string& arguments) {
    Said said = ProgramFolder::plumbline(arguments);
    EXPECT_EQ(said.exit_code, 0) << arguments << "\n" << said.err;
    errors_ = said.err;
    return said.out;
  }

  std::string errors_;
};

TEST_F(Views, AChromeTraceHasBothTimelinesWithArrowsAndMemory) {
  plumbline("run run.yaml --pp 2 --trace trace.json");
  const json trace = json::parse(read("trace.json"));
  EXPECT_EQ(trace["distributedInfo"]["world_size"], 2);
  std::map<std::string, int> kinds;
  std::map<int, int> slices;
  std::set<std::string> names;
  for (const json& event : trace["traceEvents"]) {
    const std::string phase = event["ph"];
    ++kinds[phase];
    const std::string category = event.value("cat", "");
    const bool lane = category == "collective" || category == "exposed";
    if (phase == "X" && lane) ++kinds["lane"];
    if (phase == "X" && !lane) ++slices[event["pid"].get<int>()];
    if (phase == "M" && event["name"] == "process_name")
      names.insert(event["args"]["name"].get<std::string>());
  }
  EXPECT_EQ(slices.size(), 2U);
  // The same actions, predicted and measured.
  EXPECT_EQ(slices.begin()->second, slices.rbegin()->second);
  EXPECT_GE(slices.begin()->second, 2 * 2 * 4);
  EXPECT_GT(kinds["C"], 0) << "counters of memory";
  EXPECT_GT(kinds["lane"], 0) << "collectives of groups";
  EXPECT_GT(kinds["s"], 0) << "arrows";
  EXPECT_EQ(kinds["s"], kinds["f"]);
  EXPECT_THAT(testing::PrintToString(names), HasSubstr("predicted"));
  EXPECT_THAT(testing::PrintToString(names), HasSubstr("measured"));
}

TEST_F(Views, APerfettoTraceByItsExtension) {
  plumbline("run run.yaml --pp 2 --trace trace.pftrace");
  const std::string file = read("trace.pftrace");
  int packets = 0;
  protozero::pbf_reader reader(file);
  while (reader.next()) {
    EXPECT_EQ(reader.tag(), 1U);  // Trace.packet
    reader.skip();
    ++packets;
  }
  EXPECT_GT(packets, 4 * 16);
  for (const char* name : {"predicted", "measured", "activations"}) EXPECT_THAT(file, HasSubstr(name));
}

TEST_F(Views, OnAVirtualClockEveryRunTakesTheSameTime) {
  const std::string run = "run run.yaml --pp 2 --json --quiet --emulated-clock virtual";
  const json first = json::parse(plumbline(run))["measurement"];
  const json second = json::parse(plumbline(run))["measurement"];
  EXPECT_EQ(first["time"], second["time"]);
  ASSERT_EQ(first["steps"].size(), 2U);
  EXPECT_EQ(first["steps"], second["steps"]);
  EXPECT_NEAR(first["step_s_min"].get<double>(), first["step_s_max"].get<double>(), 1e-12);
  EXPECT_GT(first["step_s_min"].get<double>(), 0);
  for (const char* load : {"others", "stolen", "waited"})
    EXPECT_TRUE(first["disturbance"][load].is_null()) << first["disturbance"];
  const Said said = ProgramFolder::plumbline(run + " --emulated-time-factor 2");
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("emulated_time_factor: found 2 with emulated_clock virtual"));
}

TEST_F(Views, RunDrawsTheMeasuredTimelineBelowThePredicted) {
  const std::string text = plumbline("--quiet run run.yaml --pp 2 --timeline");
  EXPECT_EQ(errors_, "");
  const std::size_t predicted = text.find("\npredicted ");
  const std::size_t measured = text.find("\nmeasured ");
  ASSERT_NE(predicted, std::string::npos) << text;
  ASSERT_NE(measured, std::string::npos) << text;
  EXPECT_LT(predicted, measured);
  std::istringstream lines(text.substr(predicted));
  int ranks = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U);
    if (line.starts_with("rank ")) {
      ++ranks;
      EXPECT_THAT(line, HasSubstr("F"));
      EXPECT_THAT(line, HasSubstr("B"));
      EXPECT_TRUE(line.ends_with(" %")) << line;
    }
  }
  EXPECT_EQ(ranks, 4);
  EXPECT_THAT(text, HasSubstr("F forward"));
}

TEST_F(Views, RunDrawsBothTimelinesInOnePicture) {
  const std::string text = plumbline("--quiet run run.yaml --pp 2 --svg both.svg --json");
  EXPECT_EQ(errors_, "");
  EXPECT_TRUE(json::accept(text));
  const std::string picture = read("both.svg");
  EXPECT_THAT(picture, HasSubstr("2 pipeline ranks, 4 micro-batches"));
  const std::size_t predicted = picture.find(">predicted: ");
  const std::size_t measured = picture.find(">measured: ");
  ASSERT_NE(predicted, std::string::npos) << picture;
  ASSERT_NE(measured, std::string::npos) << picture;
  EXPECT_LT(predicted, measured);
  // Equal passes in both halves: two ranks, forward and backward of four micro-batches.
  const auto passes = [&](std::size_t from, std::size_t to) {
    std::multiset<std::string> names;
    const std::string half = picture.substr(from, to - from);
    const std::string kTitle = "<title>";
    for (std::size_t at = half.find(kTitle); at != std::string::npos; at = half.find(kTitle, at + 1)) {
      const std::size_t begin = at + kTitle.size();
      const std::string name = half.substr(begin, half.find(' ', begin) - begin);
      if (name.find_first_of("FB") != std::string::npos) names.insert(name);
    }
    return names;
  };
  const auto before = passes(predicted, measured);
  EXPECT_EQ(before.size(), 16U);
  EXPECT_EQ(before, passes(measured, picture.size()));
  // One legend and one time axis.
  EXPECT_EQ(picture.find(">time, "), picture.rfind(">time, "));
  EXPECT_EQ(picture.find(">Forward<"), picture.rfind(">Forward<"));
}

TEST_F(Views, APictureThatRunCannotDrawIsRefusedBeforeRanksStart) {
  const Said long_step = ProgramFolder::plumbline("run run.yaml --pp 2 --gbs 20000 --svg both.svg");
  EXPECT_EQ(long_step.exit_code, 2);
  EXPECT_THAT(long_step.err, HasSubstr("--svg: found a step of "));
  EXPECT_THAT(long_step.err, HasSubstr("expected at most 50000"));
  const Said nowhere = ProgramFolder::plumbline("run run.yaml --pp 2 --svg none/both.svg");
  EXPECT_EQ(nowhere.exit_code, 4) << nowhere.err;
  EXPECT_THAT(nowhere.err, HasSubstr("--svg: found "));
  EXPECT_FALSE(fs::exists(folder_ / "both.svg"));
}

TEST_F(Views, SimulateDrawsAndWritesBothKindsOfTrace) {
  const std::string text = plumbline(
      "simulate --schedule 1f1b --pp 2 --microbatches 2 --costs costs.json --timeline --trace s.pftrace "
      "--quiet");
  EXPECT_THAT(text, HasSubstr("rank 0 F"));
  EXPECT_THAT(text, HasSubstr(" us"));
  EXPECT_THAT(read("s.pftrace"), HasSubstr("simulated"));
  EXPECT_FALSE(json::accept(read("s.pftrace")));
  plumbline("simulate --schedule 1f1b --pp 2 --microbatches 2 --costs costs.json --trace s.json");
  EXPECT_TRUE(json::accept(read("s.json")));
  const std::string units = plumbline("schedule 1f1b --pp 2 --microbatches 2 --format timeline");
  EXPECT_THAT(units, HasSubstr("|0 f "));
  EXPECT_THAT(units, Not(HasSubstr(" s ")));
}

TEST_F(Views, AMatrixKeepsTimelinesThatTheReportDraws) {
  write("matrix.yaml",
        read("run.yaml") + "matrix:\n  cell:\n    - {pp: 2}\n    - {pp: 2, memory_budget: 200KiB}\n");
  plumbline("matrix matrix.yaml --out results --quiet");
  EXPECT_EQ(errors_, "");
  json timelines;
  for (const auto& file : fs::directory_iterator(folder_ / "results/timelines")) {
    const json each = json::parse(read("results/timelines/" + file.path().filename().string()));
    EXPECT_FALSE(each["predicted"].is_null());
    if (!each["measured"].is_null()) timelines = each;
  }
  ASSERT_FALSE(timelines.is_null());
  for (const char* which : {"predicted", "measured"}) {
    ASSERT_EQ(timelines[which]["ranks"].size(), 2U);
    for (const json& rank : timelines[which]["ranks"]) {
      EXPECT_EQ(rank["actions"].size(), rank["start_s"].size());
      EXPECT_EQ(rank["actions"].size(), rank["peak_bytes"].size());
    }
  }
  // The emulated backend's memory is exact: prediction and count agree action by action.
  EXPECT_EQ(timelines["predicted"]["ranks"][0]["peak_bytes"].size(),
            timelines["measured"]["ranks"][0]["peak_bytes"].size());
  const std::string page = plumbline("compare results --format html --quiet");
  EXPECT_THAT(page, HasSubstr("id=\"measured-0\""));
  EXPECT_THAT(page, HasSubstr("What fits"));
}

}  // namespace
}  // namespace plumbline::run_views_test
