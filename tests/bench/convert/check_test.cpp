// convert --check: comparison of two checkpoints' losses and next tokens.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "bench/training/check/check_tokens.hpp"
#include "bench/training/check/checkpoint_comparison.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/text_input.hpp"
#include "core/checkpoints/torch_file.hpp"
#include "tests/bench/convert/convert_folder.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::convert::check_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

const std::string kGolden = PLUMBLINE_SOURCE_DIR "/tests/golden/";

training::CheckReport check(const training::CheckRequest& request) {
  return training::check_checkpoints(request, [](int, int) {});
}

class CheckTest : public ConvertFolder {
 protected:
  training::CheckRequest request(const std::string& from, const std::string& to) const {
    training::CheckRequest made;
    made.folders = {from, to};
    made.sequences = 2;
    made.seq_length = 16;
    return made;
  }
  std::string complaint_of(const training::CheckRequest& request) const {
    return test::refusal_of([&] { check(request); });
  }
};

TEST_F(CheckTest, ConvertedCheckpointsGiveTheSame) {
  for (const std::string name :
       {"llama", "qwen2", "families/qwen2_moe", "families/glm4_moe", "families/deepseek_v3"}) {
    SCOPED_TRACE(name);
    ConvertRequest there;
    there.from = kGolden + name;
    there.to = at("m");
    there.megatron.sizes.tensor = 2;
    convert_checkpoint(there, [](Bytes, Bytes) {});
    const training::CheckReport report = check(request(kGolden + name, at("m")));
    ASSERT_EQ(report.sequences.size(), 2U);
    EXPECT_EQ(report.different, 0);
    EXPECT_EQ(report.formats[1], CheckpointFormat::megatron);
    for (const training::CheckedSequence& sequence : report.sequences) {
      EXPECT_TRUE(sequence.same);
      EXPECT_EQ(sequence.difference, 0);
      EXPECT_TRUE(std::isfinite(sequence.sides[0].loss));
      EXPECT_EQ(sequence.sides[0].top.size(), training::kTopTokens);
      EXPECT_EQ(sequence.sides[0].top, sequence.sides[1].top);
    }
    EXPECT_NE(report.sequences[0].sides[0].loss, report.sequences[1].sides[0].loss);
    fs::remove_all(at("m"));
  }
  for (const std::string kind : {"llama", "mixtral", "qwen3_moe"}) {
    const std::string folder = kGolden + "torch_dist/" + kind;
    const training::CheckReport report = check(request(folder + "/hf", folder + "/torch_dist"));
    EXPECT_EQ(report.different, 0) << kind;
    EXPECT_EQ(report.formats[1], CheckpointFormat::distributed);
  }
}

TEST_F(CheckTest, TheLossIsThatOfPyTorch) {
  const std::string folder = kGolden + "llama";
  training::CheckRequest made = request(folder, folder);
  made.tokens = folder + "/tokens.npy";
  made.sequences = 8;
  const training::CheckReport report = check(made);
  double sum = 0;
  for (const training::CheckedSequence& sequence : report.sequences) sum += sequence.sides[0].loss;
  const Json expected = parse_json_object(read_text_file(folder + "/expected.json", 10'000), "expected.json");
  EXPECT_NEAR(sum / 8, expected["loss"].get<double>(), 1e-5);
}

TEST_F(CheckTest, ADamagedWeightShows) {
  const std::string hf = kGolden + "llama";
  ConvertRequest there;
  there.from = hf;
  there.to = at("m");
  convert_checkpoint(there, [](Bytes, Bytes) {});
  const std::string rank = "m/iter_0000001/mp_rank_00/model_optim_rng.pt";
  std::map<std::string, StoredTensor> tensors;
  const TorchFile file(at(rank));
  tensors = file.tensors("model");
  // The rows of gate and up in each other's place: the trap of the layout.
  StoredTensor& fc1 = tensors.at("decoder.layers.0.mlp.linear_fc1.weight");
  std::vector<std::byte> swapped(fc1.bytes.begin(), fc1.bytes.end());
  std::rotate(swapped.begin(), swapped.begin() + static_cast<std::ptrdiff_t>(swapped.size() / 2),
              swapped.end());
  fc1.bytes = swapped;
  rewrite(rank, tensors);
  training::CheckRequest made = request(hf, at("m"));
  training::CheckReport report = check(made);
  EXPECT_EQ(report.different, 2);
  EXPECT_GT(report.sequences[0].difference, made.tolerance);
  EXPECT_FALSE(report.sequences[0].same);
  made.tolerance = 100;
  report = check(made);
  for (const training::CheckedSequence& sequence : report.sequences)
    EXPECT_EQ(sequence.same, sequence.sides[0].top == sequence.sides[1].top);
}

TEST_F(CheckTest, TokensOfTextsArraysAndSeeds) {
  write("ids.txt", "1 2,3\n4\t5\n");
  EXPECT_THAT(training::check_tokens(at("ids.txt"), 6, 2, 3, 0),
              ElementsAre(ElementsAre(1, 2, 3), ElementsAre(3, 4, 5), ElementsAre(5, 1, 2)));
  write("ids.bin", std::string("\1\0\0\0\2\0\0\0\3\0\0\0", 12));
  EXPECT_THAT(training::check_tokens(at("ids.bin"), 6, 2, 1, 0), ElementsAre(ElementsAre(1, 2, 3)));
  EXPECT_EQ(training::check_tokens("", 100, 8, 2, 3), training::check_tokens("", 100, 8, 2, 3));
  EXPECT_NE(training::check_tokens("", 100, 8, 2, 3), training::check_tokens("", 100, 8, 2, 4));
  const auto complaint = [&](const std::string& text) -> std::string {
    write("ids.txt", text);
    return test::refusal_of([&] { training::check_tokens(at("ids.txt"), 6, 2, 1, 0); });
  };
  EXPECT_THAT(complaint("1 6"), HasSubstr("token 1 is \"6\", expected an id from 0 to 5"));
  EXPECT_THAT(complaint("1 -1"), HasSubstr("token 1 is \"-1\""));
  EXPECT_THAT(complaint("1 two"), HasSubstr("token 1 is \"two\""));
  EXPECT_THAT(complaint("1 99999999999"), HasSubstr("token 1 is"));
  EXPECT_THAT(complaint("1"), HasSubstr("1 token ids, expected at least 2"));
}

TEST_F(CheckTest, WhatIsNoPairOfCheckpointsIsRefused) {
  const std::string llama = kGolden + "llama";
  training::CheckRequest made = request(llama, at("nowhere"));
  EXPECT_THAT(complaint_of(made), HasSubstr("not a folder"));
  made = request(llama, kGolden + "torch_dist/llama/hf");
  EXPECT_THAT(complaint_of(made), HasSubstr("expected checkpoints of one model"));
  made = request(kGolden + "gpt2", kGolden + "gpt2");
  made.seq_length = 100'000;
  EXPECT_THAT(complaint_of(made), HasSubstr("seq_length"));
  made = request(kGolden + "families/bloom", kGolden + "families/bloom");
  EXPECT_THAT(complaint_of(made), HasSubstr("Megatron-Core has no ALiBi"));
}

}  // namespace
}  // namespace plumbline::convert::check_test
