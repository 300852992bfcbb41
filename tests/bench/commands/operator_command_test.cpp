// `plumbline operator` as a script sees it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::operator_command_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class OperatorCommand : public ProgramFolder {};

TEST_F(OperatorCommand, PrintsTheTimeAndWhatItRestsOn) {
  const Said text = plumbline(
      "operator attention --sequence 512 --heads 4 --kv-heads 1 --head 64 --hardware h100-sxm-80gb");
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("time: 17.0 us, measured\n"));
  const Said json = plumbline("operator all-reduce --ranks 8 --bytes 64MiB --hardware h200-sxm-141gb --json");
  ASSERT_EQ(json.exit_code, 0) << json.err;
  const auto parsed = nlohmann::json::parse(json.out);
  EXPECT_EQ(parsed["basis"], "measured");
  EXPECT_GT(parsed["seconds"].get<double>(), 64 * 1048576 / 900e9);  // NVLink's peak
  EXPECT_EQ(nlohmann::json::parse(
                plumbline("operator gemm --m 512 --n 512 --k 512 --hardware mi300x --json").out)["basis"],
            "estimated");
}

TEST_F(OperatorCommand, PutsATimeIntoEveryLineOfATable) {
  write("shapes.csv", "accelerator,m,n,k,mine\nh200-sxm-141gb,32,128,128,a\nmi300x,8192,8192,8192,b\n");
  const Said rows = plumbline("operator gemm --csv shapes.csv");
  ASSERT_EQ(rows.exit_code, 0) << rows.err;
  EXPECT_THAT(
      rows.out,
      StartsWith("accelerator,m,n,k,mine,predicted_s,basis\nh200-sxm-141gb,32,128,128,a,2.555e-06,measured\n"
                 "mi300x,8192,8192,8192,b,"));
  write("sizes.csv", "operation,bytes\nall_gather,1048576\nall_reduce,1048576\n");
  const Said collectives =
      plumbline("operator all-reduce --csv sizes.csv --ranks 8 --hardware h100-sxm-80gb");
  const Said gather =
      plumbline("operator all-gather --bytes 1048576 --ranks 8 --hardware h100-sxm-80gb --json");
  const double seconds = nlohmann::json::parse(gather.out)["seconds"];
  EXPECT_THAT(collectives.out, HasSubstr(fmt::format("\nall_gather,1048576,{:.5g},", seconds)));
  write("casts.csv", "m,k\n4096,4096\n");
  EXPECT_THAT(plumbline("operator quantize --csv casts.csv --hardware b200-sxm-180gb").out,
              StartsWith("m,k,predicted_s,predicted_amax_s,predicted_cast_s,basis\n"));
}

TEST_F(OperatorCommand, SaysWhatToChange) {
  write("short.csv", "m,n,k\n8,8\n");
  write("packed.csv", "\x1f\x8b");
  const std::pair<const char*, const char*> cases[] = {
      {"gem --m 8", "OPERATOR: found gem, expected one of gemm, attention"},
      {"gemm --m 8 --n 8 --k 8", "--hardware: found nothing, expected an accelerator"},
      {"gemm --m 8 --n 8 --hardware h100-sxm-80gb", "operator gemm: k: found nothing, expected a value"},
      {"gemm --m 8 --n 8 --k 0 --hardware h100-sxm-80gb",
       "operator gemm: k: found 0, expected a number from 1"},
      {"gemm --m 8 --n 8 --k 8 --heads 2 --hardware h100-sxm-80gb",
       "--heads: found 2, expected nothing: gemm takes --type, --m"},
      {"gemm --m 8 --n 8 --k 8 --type int4 --hardware h100-sxm-80gb", "type: found int4, expected bf16, fp8"},
      {"attention --sequence 8 --heads 6 --kv-heads 4 --hardware h100-sxm-80gb",
       "kv_heads: found 4, expected a divisor of the 6"},
      {"experts --tokens 8 --hidden 8 --ffn 8 --choices 9 --experts 8 --hardware h100-sxm-80gb",
       "choices: found 9"},
      {"all-reduce --ranks 1e11 --bytes 8 --hardware h100-sxm-80gb",
       "ranks: found 100000000000, expected a whole number up to 1048576"},
      {"gemm --csv short.csv --hardware h100-sxm-80gb", "short.csv:2: found 2 cells, expected 3"},
      {"gemm --csv packed.csv --hardware h100-sxm-80gb",
       "packed.csv: found a gzip file, expected CSV; unpack it"},
  };
  for (const auto& [arguments, message] : cases) {
    const Said said = plumbline(std::string("operator ") + arguments);
    EXPECT_EQ(said.exit_code, 2) << arguments;
    EXPECT_THAT(said.err, HasSubstr(message)) << arguments;
    EXPECT_EQ(said.out, "") << arguments;
  }
}

}  // namespace
}  // namespace plumbline::operator_command_test
