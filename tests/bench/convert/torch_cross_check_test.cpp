// Checkpoints exchanged with PyTorch: it opens ours with weights_only, we open its files. By the first Python
// that has torch: PLUMBLINE_TORCH_PYTHON, python3, /usr/bin/python3; skipped if none can import it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdlib>

#include "tests/bench/convert/convert_folder.hpp"

namespace plumbline::convert::torch_cross_check_test {
namespace {

using TorchCrossCheckTest = ConvertFolder;
constexpr int kNoTorch = 77;

TEST_F(TorchCrossCheckTest, BothOpenWhatTheOtherWrites) {
  make("hf", llama_config(4));
  MegatronTarget target;
  target.sizes = {2, 2, 1, 1};
  convert("hf", "megatron", target);
  const char* named = std::getenv("PLUMBLINE_TORCH_PYTHON");
  int code = kNoTorch;
  for (const std::string python : {named == nullptr ? "python3" : named, "/usr/bin/python3"}) {
    const std::string command =
        fmt::format("\"{}\" \"{}/tests/bench/convert/torch_cross_check.py\" \"{}\" >\"{}\" 2>&1", python,
                    PLUMBLINE_SOURCE_DIR, at(""), at("said.txt"));
    const int status = std::system(command.c_str());
    code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code != kNoTorch && code != 127) break;
  }
  if (code == kNoTorch || code == 127) GTEST_SKIP() << "no Python with torch (set PLUMBLINE_TORCH_PYTHON)";
  ASSERT_EQ(code, 0) << read("said.txt");
  convert("made", "back");
  EXPECT_THAT(different_tensors(at("hf"), at("back")), testing::IsEmpty());
}

}  // namespace
}  // namespace plumbline::convert::torch_cross_check_test
