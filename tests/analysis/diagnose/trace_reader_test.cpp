// Traces are read from plain and compressed files, and broken ones refused in one line.
#include "analysis/diagnose/traces/trace_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/diagnose/diagnosis.hpp"
#include "core/base/error.hpp"
#include "tests/analysis/diagnose/small_trace.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::trace_reader_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string usual_text() {
  return SmallTrace(3)
      .step(7, 100, 1000.5)
      .launched("aten::mm", "sm90_gemm", "7", 110, 120.25, 50.125, "[[2,3],[3,4]]")
      .collective("allreduce", "dp", 300, 40)
      .text(R"("deviceProperties":[{"id":0,"name":"Some GPU"}],"baseTimeNanoseconds":5000,)");
}

std::string compressed(const std::string& text) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string copy = text;
  stream.next_in = reinterpret_cast<Bytef*>(copy.data());
  stream.avail_in = static_cast<uInt>(copy.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// The message of the refusal; empty: the file is read.
std::string refusal(const std::string& path) {
  try {
    diagnose(read_trace_file(path), std::nullopt, {});
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(TraceReader, ReadsSlicesWithTheirArgumentsPlainAndCompressed) {
  const test::TemporaryFolder folder;
  const std::string text = usual_text();
  for (const std::string& path :
       {folder.write("a.json", text), folder.write("a.json.gz", compressed(text))}) {
    const std::vector<ProfileTrace> ranks = read_trace_file(path);
    ASSERT_EQ(ranks.size(), 1U);
    const ProfileTrace& trace = ranks.front();
    EXPECT_EQ(trace.rank, 3);
    EXPECT_EQ(trace.world_size, 2);
    EXPECT_EQ(trace.device, "Some GPU");
    ASSERT_EQ(trace.slices.size(), 5U);
    const TracedSlice& kernel = trace.slices[3];
    EXPECT_EQ(trace.name(kernel), "sm90_gemm");
    EXPECT_EQ(kernel.kind, SliceKind::kernel);
    EXPECT_EQ(kernel.begin, 120250 + 5000);
    EXPECT_EQ(kernel.end - kernel.begin, 50125);
    EXPECT_EQ(trace.text(trace.slices[1].shapes), "[2,3][3,4]");
    ASSERT_EQ(trace.messages.size(), 1U);
    EXPECT_EQ(trace.text(trace.messages[0].description), "dp");
    EXPECT_EQ(trace.messages[0].elements_in, 1024);
  }
}

TEST(TraceReader, TakesTheRankOfAFileNameAndAnArrayOfEvents) {
  const test::TemporaryFolder folder;
  const std::string event = R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1e3,"dur":2})";
  const std::vector<ProfileTrace> ranks = read_trace_file(folder.write("rank-12.json", "[" + event + "]"));
  EXPECT_EQ(ranks.front().rank, 12);
  EXPECT_EQ(ranks.front().slices.front().begin, 1'000'000);
}

TEST(TraceReader, RefusesInOneLine) {
  const test::TemporaryFolder folder;
  struct Case {
    const char* name;
    std::string text;
    const char* said;
  };
  const std::string deep(100'000, '[');
  const Case cases[] = {
      {"cut.json", usual_text().substr(0, 500), "found text that is not JSON at byte"},
      {"empty.json", "", "found text that is not JSON"},
      {"other.json", R"({"a":1})", "found JSON without traceEvents"},
      {"none.json", R"({"traceEvents":[]})", "without operators and kernels"},
      {"own.json", R"({"distributedInfo":{"backend":"plumbline"},"traceEvents":[]})", "no track of a rank"},
      {"cut.json.gz", compressed(usual_text()).substr(0, 200), "found broken compression"},
      {"deep.json", R"({"traceEvents":)" + deep, "not JSON"},
      {"long.json", "{\"" + std::string(40'000'000, 'a'), "without a quote"},
  };
  for (const Case& each : cases) {
    EXPECT_THAT(refusal(folder.write(each.name, each.text)),
                AllOf(HasSubstr(each.said), HasSubstr("expected"), Not(HasSubstr("\n"))))
        << each.name;
  }
  EXPECT_THAT(refusal("/nowhere/trace.json"), HasSubstr("found no such file"));
  EXPECT_THAT(refusal("/tmp"), HasSubstr("found no regular file"));
}

// Bytes changed, cut, doubled and moved at random: each file is read, or refused in one line.
TEST(TraceReader, SurvivesMutatedTraces) {
  const test::TemporaryFolder folder;
  const std::string text = usual_text();
  std::mt19937 random(5);  // NOLINT(cert-msc51-cpp): the same every time
  const auto draw = [&](std::size_t below) {
    return std::uniform_int_distribution<std::size_t>(0, below - 1)(random);
  };
  constexpr std::string_view kParts[] = {"{",           "}",
                                         "[",           "]",
                                         ",",           "\"",
                                         ":",           "-1",
                                         "1e300",       "9223372036854775807",
                                         "null",        "\"ts\":-5,",
                                         "\"dur\":-1,", "\"ph\":\"X\",",
                                         "\\"};
  int read = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string changed = text;
    for (std::size_t n = 1 + draw(3); n > 0; --n) {
      const std::size_t at = draw(changed.size());
      switch (draw(5)) {
        case 0:
          changed[at] = static_cast<char>(draw(256));
          break;
        case 1:
          changed.resize(std::max<std::size_t>(1, at));
          break;
        case 2:
          changed.insert(at, changed.substr(draw(changed.size()), draw(60)));
          break;
        case 3:
          changed.erase(at, 1 + draw(20));
          break;
        default:
          changed.insert(at, kParts[draw(std::size(kParts))]);
      }
      if (changed.empty()) changed = " ";
    }
    const std::string path = folder.write("m.json", changed);
    const std::string said = refusal(path);
    std::filesystem::remove(path);  // file systems write a file that is emptied out at once
    EXPECT_THAT(said, Not(HasSubstr("\n")));
    read += said.empty() ? 1 : 0;
  }
  EXPECT_GT(read, 200);
  EXPECT_LT(read, 3800);
}

}  // namespace
}  // namespace plumbline::trace_reader_test
