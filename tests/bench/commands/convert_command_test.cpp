// `plumbline convert` as a script sees it, and its leftovers when it is killed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/bench/convert/convert_folder.hpp"

namespace plumbline::convert::convert_command_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ConvertCommandTest : public ConvertFolder {
 protected:
  struct Said {
    int exit_code = -1;
    std::string out, err;
  };
  /// `before`: a command that starts the program.
  Said run(const std::string& arguments, const std::string& before = "") const {
    const std::string command = fmt::format("cd {0} && HOME={0} {1} {2} convert {3} >out.txt 2>err.txt",
                                            at(""), before, PLUMBLINE_PROGRAM, arguments);
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("out.txt"), read("err.txt")};
  }
};

TEST_F(ConvertCommandTest, SaysWhatItDidAndRefusesInOneLine) {
  make("hf", llama_config(4));
  const Said there =
      run("hf m --to megatron --tp 2 --pp 2 --vpp 2 --make-vocab-size-divisible-by 4 --quiet --json");
  ASSERT_EQ(there.exit_code, 0) << there.err;
  const nlohmann::json json = nlohmann::json::parse(there.out);
  EXPECT_EQ(json["to"]["format"], "megatron");
  EXPECT_EQ(json["to"]["virtual_pipeline_chunks"], 2);
  EXPECT_EQ(json["architecture"], "llama");
  EXPECT_EQ(json["files"], 4);
  const Said back = run("m back");
  ASSERT_EQ(back.exit_code, 0) << back.err;
  EXPECT_THAT(back.out, HasSubstr("from Megatron (tp 2, pp 2, 2 chunks a rank) to Hugging Face"));
  EXPECT_THAT(different_tensors(at("hf"), at("back")), testing::IsEmpty());
  write("nothing/file", "");
  struct Case {
    const char* arguments;
    const char* says;
    int code = 2;
  };
  for (const Case& each :
       {Case{"hf m --tp 2", "found an existing"}, Case{"nowhere out", "not a folder"},
        Case{"nothing out", "holds neither"}, Case{"hf out --to torch", "--to"}, Case{"hf", "TO: missing"},
        Case{"m out --tp 2", "are about a Megatron checkpoint"}, Case{"hf out --tp 3", "attention heads"},
        Case{"hf out --tp 0", "--tp"}, Case{"hf no/where/out", "No such file or directory", 4},
        Case{"hf out --model nonsense", "neither a preset nor a file"},
        Case{"hf /proc/out", "cannot be made", 4}}) {
    const Said said = run(each.arguments);
    EXPECT_EQ(said.exit_code, each.code) << each.arguments;
    EXPECT_THAT(said.err, HasSubstr(each.says)) << each.arguments;
    EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
    EXPECT_EQ(said.out, "");
    EXPECT_FALSE(fs::exists(at("out"))) << each.arguments;
  }
}

TEST_F(ConvertCommandTest, RunTakesTheWeightsOfEitherFormat) {
  const std::string golden = PLUMBLINE_SOURCE_DIR "/tests/golden/llama";
  ASSERT_EQ(run(golden + " m --to megatron --tp 4 --pp 2 --quiet").exit_code, 0);
  const auto losses = [&](const std::string& weights) {
    const std::string command = fmt::format(
        "cd {0} && HOME={0} {1} run {2}/run.yaml --weights {3} --set steps=1 --json >out.txt 2>err.txt",
        at(""), PLUMBLINE_PROGRAM, golden, weights);
    EXPECT_EQ(std::system(command.c_str()), 0) << read("err.txt");
    return nlohmann::json::parse(read("out.txt"))["measurement"]["loss"].get<double>();
  };
  EXPECT_EQ(losses(at("m")), losses(golden));
}

TEST_F(ConvertCommandTest, CheckEndsWithOneWhereCheckpointsDiffer) {
  const std::string golden = PLUMBLINE_SOURCE_DIR "/tests/golden/llama";
  ASSERT_EQ(run(golden + " m --tp 2 --quiet").exit_code, 0);
  const std::string of_golden = fmt::format("--tokens {}/tokens.npy --sequences 2 --seq-length 16", golden);
  const Said same = run(fmt::format("{} m --check {}", golden, of_golden));
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr(", equal; next "));
  EXPECT_THAT(same.out, HasSubstr("2 sequences of 16 tokens: the same, losses to 1e-05"));
  EXPECT_EQ(std::count(same.out.begin(), same.out.end(), '\n'), 3);
  // The model it would be with other positions.
  std::string config = read("m/config.json");
  const std::string key = "\"rope_theta\": ";
  ASSERT_NE(config.find(key), std::string::npos);
  config.insert(config.find(key) + key.size(), "9");
  write("m/config.json", config);
  const Said other = run(golden + " m --check --json --precision bf16");
  EXPECT_EQ(other.exit_code, 1) << other.err;
  const nlohmann::json json = nlohmann::json::parse(other.out);
  EXPECT_EQ(json["to"]["format"], "megatron");
  EXPECT_EQ(json["precision"], "bf16");
  EXPECT_FALSE(json["same"]);
  EXPECT_EQ(json["sequences"].size(), 4U);
  EXPECT_EQ(json["sequences"][0]["next_tokens"][0].size(), 5U);
  EXPECT_GT(json["sequences"][0]["difference"], 1e-5);
  for (const char* arguments : {"--seed 3", "--check --overwrite", "--check --tp 2", "--check --sequences 0",
                                "--check --tokens x --seed 2", "--check --tokens /nowhere.npy"}) {
    const Said said = run(golden + " m " + arguments);
    EXPECT_EQ(said.exit_code, 2) << arguments;
    EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
  }
}

TEST_F(ConvertCommandTest, FullDisksEndWithFourAndTheNextConversionGoesOn) {
  make("hf", llama_config(4), StoredType::fp32);
  // No file may grow over 20 KiB: the first tensors fit.
  const Said said = run("hf out --to megatron --pp 4", "ulimit -f 20; trap '' XFSZ;");
  EXPECT_EQ(said.exit_code, 4);
  EXPECT_THAT(said.err, HasSubstr("File too large; the next conversion goes on from here"));
  EXPECT_FALSE(fs::exists(at("out")));
  EXPECT_EQ(run("hf out --to megatron --pp 4").exit_code, 0);
  EXPECT_EQ(run("out back").exit_code, 0);
  EXPECT_THAT(different_tensors(at("hf"), at("back")), testing::IsEmpty());
}

TEST_F(ConvertCommandTest, KilledAtAnyInstantTheNextRunCompletesIt) {
  using Clock = std::chrono::steady_clock;
  make("hf", R"({"model_type":"llama","num_hidden_layers":4,"hidden_size":256,"num_attention_heads":4,)"
             R"("num_key_value_heads":2,)"
             R"("intermediate_size":512,"vocab_size":4000,"max_position_embeddings":64,)"
             R"("tie_word_embeddings":false})");
  const std::string arguments = "--to megatron --tp 2 --pp 2 --quiet --overwrite";
  const Clock::time_point begin = Clock::now();
  ASSERT_EQ(run("hf whole " + arguments).exit_code, 0);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const auto whole = files_of("whole");
  constexpr int kInstants = 16;
  int unfinished = 0;
  for (int i = 0; i < kInstants; ++i) {
    // Every second time there is another checkpoint to be replaced. In the foreground timeout outlives the
    // processes that it kills.
    if (i % 2 == 1) {
      ASSERT_EQ(run("hf out --to megatron --tp 1 --quiet").exit_code, 0);
    }
    const auto before = i % 2 == 1 ? files_of("out") : decltype(whole)();
    run("hf out " + arguments,
        fmt::format("timeout --foreground -s KILL {:.4f}", seconds * (i + 0.5) / kInstants));
    const bool there = fs::exists(at("out"));
    const auto found = there ? files_of("out") : decltype(whole)();
    EXPECT_TRUE(found == before || found == whole) << "half-written after " << i << "/" << kInstants;
    unfinished += found == whole ? 0 : 1;
    const Said again = run("hf out " + arguments);
    EXPECT_EQ(again.exit_code, 0) << again.err;
    EXPECT_TRUE(files_of("out") == whole);
    EXPECT_FALSE(fs::exists(at("out.partial")));
    fs::remove_all(at("out"));
  }
  EXPECT_GT(unfinished, kInstants / 4) << "most were through before they were killed";
}

}  // namespace
}  // namespace plumbline::convert::convert_command_test
