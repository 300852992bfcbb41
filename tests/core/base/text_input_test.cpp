// Whole files under a limit: one that is too large is refused before it is read.
#include "core/base/text_input.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "core/base/error.hpp"
#include "core/base/similar_name.hpp"

namespace plumbline::text_input_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ReadTextFile, TakesTheLimitAndNoMore) {
  const std::string path =
      (fs::path(testing::TempDir()) / ("plumbline_text_input_test." + std::to_string(::getpid()))).string();
  std::ofstream(path) << "12345";
  EXPECT_EQ(read_text_file(path, 5), "12345");
  EXPECT_THAT([&] { read_text_file(path, 4); }, ThrowsMessage<InputError>(HasSubstr("larger than 4 bytes")));
  // reports 0 bytes as its size
  EXPECT_THAT(read_text_file("/proc/self/status", 1 << 16), HasSubstr("Pid:"));
  fs::remove(path);
}

TEST(ReadTextFile, RefusesALargeFileBeforeReadingIt) {
  const std::string path =
      (fs::path(testing::TempDir()) / ("plumbline_text_input_large." + std::to_string(::getpid()))).string();
  { const std::ofstream made(path); }
  fs::resize_file(path, std::uintmax_t{1} << 36);  // a hole: no byte of it is on the disk
  constexpr std::size_t kLimit = std::size_t{1} << 35;
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_THAT([&] { read_text_file(path, kLimit); }, ThrowsMessage<InputError>(HasSubstr("larger than")));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(1));
  fs::remove(path);
}

TEST(FirstLine, IsEmptyWhereThereIsNone) {
  const std::string path = testing::TempDir() + "/first_line.txt";
  for (const char* text : {"one\ntwo\n", "one"}) {
    std::ofstream(path) << text;
    EXPECT_EQ(first_line(path), "one");
  }
  std::ofstream(path) << "";
  EXPECT_EQ(first_line(path), "");
  fs::remove(path);
  EXPECT_EQ(first_line(path), "");
}

TEST(SimilarName, IsEmptyBeyondAThird) {
  const std::vector<std::string_view> known = {"--world-size", "--tp",         "--dp",
                                               "--quiet",      "--fp8-format", "oom"};
  const struct {
    const char* name;
    const char* similar;
  } cases[] = {{"--quite", "--quiet"},
               {"--world-sise", "--world-size"},
               {"--tpp", "--tp"},
               {"--batch-size", ""},
               {"--dtype", ""},
               {"--fsdp", ""},
               {"foo", ""},
               {"--fp8-", "--fp8-format"},
               {"", ""}};
  for (const auto& each : cases) EXPECT_EQ(similar_name(each.name, known), each.similar) << each.name;
  EXPECT_EQ(similar_name("name", {}), "");
}

}  // namespace
}  // namespace plumbline::text_input_test
