// Tokens that count in the loss: unclear files, and steps in which few or none count.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "bench/training/trainer/loss_mask.hpp"
#include "core/base/error.hpp"
#include "core/run/solo_communicator.hpp"
#include "tests/bench/training/support/training_support.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::training::loss_mask_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::int64_t kSeq = 12;
constexpr std::int64_t kSamples = 4;
constexpr std::int64_t kTokens = kSamples * kSeq + 1;

class LossMaskTest : public testing::Test, protected test::TemporaryFolder {
 protected:
  /// `masked` of the samples count nowhere; the last token belongs to the last sample's targets.
  std::string mask_without(const std::vector<std::int64_t>& masked) const {
    std::string bytes(kTokens, '\1');
    for (const std::int64_t sample : masked) {
      for (std::int64_t j = 0; j < kSeq; ++j) bytes[static_cast<std::size_t>(sample * kSeq + j + 1)] = '\0';
    }
    return write("mask.bin", bytes);
  }
  RunConfig config_with(const std::string& mask, std::int64_t batch) const {
    RunConfig config;
    config.model = small_qwen2();
    config.distillation.teacher = small_gpt2();
    config.numerics.precision = DType::fp32;
    config.batch.seq_length = kSeq;
    config.batch.global_batch_size = batch;
    config.parallel.make_vocab_size_divisible_by = 8;
    config.distillation.temperature = 1.5;
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = 0; i < kTokens; ++i) {
      tokens.push_back(static_cast<std::int32_t>(i * 37 % config.model.vocab));
    }
    config.files.data =
        write("tokens.bin", {reinterpret_cast<const char*>(tokens.data()), tokens.size() * 4});
    config.files.loss_mask = mask;
    return config;
  }
};

TEST_F(LossMaskTest, FilesThatAreNoMaskAreOneClearLine) {
  const std::string sparse = write("huge.bin", "");
  fs::resize_file(sparse, std::uintmax_t{1} << 40);
  fs::create_directory(folder_ / "folder.bin");
  const std::pair<std::string, const char*> cases[] = {
      {(folder_ / "none.bin").string(), "expected a readable file"},
      {(folder_ / "folder.bin").string(), "not a regular file"},
      {write("empty.bin", ""), "has 0 bytes, expected one for each of the 5 tokens"},
      {write("short.bin", std::string(4, '\1')), "has 4 bytes, expected one for each of the 5 tokens"},
      {sparse, "has 1099511627776 bytes, expected one for each of the 5 tokens"},
      {write("text.bin", "01101"), "has 48 at byte 0, expected 0 or 1"},
      {write("other.bin", std::string("\1\1\0\2\1", 5)), "has 2 at byte 3, expected 0 or 1"},
  };
  for (const auto& [path, fragment] : cases) {
    try {
      const LossMask mask(path, 5, 2);
      ADD_FAILURE() << path;
    } catch (const InputError& error) {
      const std::string line = error.what();
      EXPECT_THAT(line, HasSubstr(fragment));
      EXPECT_THAT(line, HasSubstr("loss_mask: "));
      EXPECT_EQ(line.find('\n'), std::string::npos);
    }
  }
}

struct Loss {
  const char* name;
  DistillationLoss loss;
  DistillationKl kl;
  double lm_weight;
};
constexpr Loss kLosses[] = {
    {"fused", DistillationLoss::fused, DistillationKl::forward, 0},
    {"reverse", DistillationLoss::fused, DistillationKl::reverse, 0.25},
    {"unfused", DistillationLoss::unfused, DistillationKl::forward, 0},
    {"unfused with language model", DistillationLoss::unfused, DistillationKl::forward, 0.5},
};

RunConfig with(RunConfig config, const Loss& loss) {
  config.distillation.loss = loss.loss;
  config.distillation.kl = loss.kl;
  config.distillation.lm_weight = loss.lm_weight;
  return config;
}

TEST_F(LossMaskTest, AMaskedMicrobatchIsAsIfItWereNotThere) {
  const RunConfig masked = config_with(mask_without({kSamples - 1}), kSamples);
  for (const Loss& loss : kLosses) {
    SCOPED_TRACE(loss.name);
    SoloCommunicator communicator;
    const StepResult found = one_step(with(masked, loss), communicator);
    RunConfig without = with(masked, loss);
    without.batch.global_batch_size = kSamples - 1;
    SoloCommunicator other;
    const StepResult reference = one_step(without, other);
    EXPECT_GT(reference.loss, 0);
    EXPECT_DOUBLE_EQ(found.loss, reference.loss);
    expect_gradients(reference.gradients, found.gradients, 1e-6);
  }
}

TEST_F(LossMaskTest, WithoutAnyTokenLossAndGradientsAreZero) {
  const RunConfig masked = config_with(mask_without({0, 1, 2, 3}), kSamples);
  for (const Loss& loss : kLosses) {
    SCOPED_TRACE(loss.name);
    SoloCommunicator communicator;
    const StepResult found = one_step(with(masked, loss), communicator);
    EXPECT_EQ(found.loss, 0);
    EXPECT_EQ(found.gradient_norm, 0);
    ASSERT_FALSE(found.gradients.empty());
    for (const auto& [name, values] : found.gradients) {
      for (const float value : values) ASSERT_EQ(value, 0) << name;
    }
  }
}

}  // namespace
}  // namespace plumbline::training::loss_mask_test
