// Lines of a command that takes long.
#include "bench/show/text/still_working.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace plumbline::still_working_test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

std::string contents(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

TEST(StillWorking, SaysWhatIsDoneOnceItTakesLong) {
  std::FILE* out = std::tmpfile();
  {
    StillWorking working("making the schedule", out, milliseconds{20});
    std::this_thread::sleep_for(milliseconds{60});
    working.now("simulating the step");
    std::this_thread::sleep_for(milliseconds{300});
  }
  const std::string text = contents(out);
  EXPECT_THAT(text, HasSubstr("making the schedule, 1 s so far\n"));
  EXPECT_THAT(text, HasSubstr("simulating the step, 1 s so far\n"));
}

TEST(StillWorking, SaysNothingWhereItTakesNoTimeOrNobodyListens) {
  std::FILE* out = std::tmpfile();
  { StillWorking working("making the schedule", out); }
  EXPECT_EQ(contents(out), "");
  { StillWorking working("making the schedule", nullptr, milliseconds{1}); }
}

}  // namespace
}  // namespace plumbline::still_working_test
