// The text forms: written text reads back; broken text gives one line with row and column.
#include "core/schedule_text/schedule_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/base/error.hpp"
#include "core/validate/validate.hpp"
#include "schedules/make_schedule.hpp"
#include "schedules/passes.hpp"
#include "tests/support/sanitized.hpp"

namespace plumbline::schedule_text_test {
namespace {

using testing::HasSubstr;

std::string file_text(const std::string& path) {
  std::ifstream file(std::string(PLUMBLINE_SOURCE_DIR) + "/" + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void expect_same(const Schedule& a, const Schedule& b) {
  EXPECT_EQ(a.ranks, b.ranks);
  EXPECT_EQ(a.stages, b.stages);
  EXPECT_EQ(a.microbatches, b.microbatches);
  EXPECT_EQ(a.routes, b.routes);
  EXPECT_EQ(a.barrier_at_end, b.barrier_at_end);
  EXPECT_EQ(a.vocab, b.vocab);
  EXPECT_EQ(a.joint_teacher, b.joint_teacher);
  EXPECT_EQ(a.rank_of_stage, b.rank_of_stage);
  EXPECT_EQ(a.actions, b.actions);
}

TEST(ScheduleText, EveryScheduleComesBack) {
  for (const std::string_view name : schedule_names()) {
    for (const int ranks : {1, 2, 4}) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(ranks));
      if (name == "dualpipe" && ranks == 1) continue;
      ScheduleRequest request;
      request.name = name;
      request.ranks = ranks;
      request.microbatches = 8;
      const Schedule plain = make_schedule(request);
      const Schedule full = add_step_end(add_transfers(plain), {true, true});
      for (const Schedule& schedule : {plain, full}) {
        expect_same(parse_schedule_csv(to_csv(schedule), "test"), schedule);
        expect_same(parse_schedule_json(to_json(schedule), "test"), schedule);
      }
    }
  }
}

TEST(ScheduleText, CellsAreReadAsPythonsCsvReaderDoes) {
  const Schedule plain = parse_schedule_csv("0F0,0F1,0B0,0B1\n", "torch");
  for (const char* text : {
           "\"0F0\",\"0F1\",\"0B0\",\"0B1\"\n",
           "\xEF\xBB\xBF"
           "0F0,0F1,0B0,0B1\n",
           "\xEF\xBB\xBF\"0F0\",,\" 0F1 \", \"\",0B0,\"0B1\" ,\r\n",
       }) {
    EXPECT_EQ(parse_schedule_csv(text, "torch").actions, plain.actions) << text;
  }
  for (const char* text : {"\"0F0,0B0\n", "\"0F0\"x,0B0\n", "\"\"\n"})
    EXPECT_THROW(parse_schedule_csv(text, "torch"), InputError) << text;
}

TEST(ScheduleText, Golden) {
  EXPECT_EQ(to_text(one_f_one_b(4, 8)), file_text("tests/golden/one_f_one_b_p4_m8.txt"));
  EXPECT_EQ(to_csv(add_transfers(zb_h1(3, 4))), file_text("tests/golden/zb_h1_p3_m4_transfers.csv"));
}

TEST(ScheduleText, ReadsPyTorchsLoweredForm) {
  // Cells about sharding and waiting do not affect the order; empty cells are idle time.
  const Schedule schedule = parse_schedule_csv(
      "0UNSHARD,0F0,0SEND_F0,,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\r\n1RECV_F0, 1F0 "
      ",1B0,1SEND_B0,1WAIT_SEND_B0\r\n",
      "torch");
  EXPECT_NO_THROW(validate(schedule));
  EXPECT_EQ(to_csv(schedule), "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
  const Schedule pair = parse_schedule_csv("0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2\n", "torch");
  EXPECT_NO_THROW(validate(pair));
  EXPECT_TRUE(pair.actions[0][2].overlaps_next);
}

TEST(ScheduleText, SendWaitsFollowTheExecutorsBuffers) {
  EXPECT_EQ(to_csv(add_transfers(gpipe(2, 2)), {.send_waits = true}),
            "0F0,0SEND_F0,0F1,0WAIT_SEND_F0,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0WAIT_SEND_F1\n"
            "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1WAIT_SEND_B0,1SEND_B1,1WAIT_SEND_B1\n");
}

struct Broken {
  const char* text;
  const char* says;
};
constexpr Broken kBroken[] = {
    {"", "no actions"},
    {"\n", "no actions"},
    {"0F0,0B0\n\n1F0,1B0\n", "row 2, column 1: empty"},
    {"0F0,0B0\n,\n", "row 2, column 1: no action at all"},
    {"0F0,0X0\n", "row 1, column 2: \"0X0\": unknown action \"X\""},
    {"0F0,0B0\n1F0,F0\n", "row 2, column 2: \"F0\": expected <stage><TYPE><micro-batch>"},
    {"0F0,0B0x\n", "row 1, column 2: \"0B0x\": expected"},
    {"0F0,0B\n", "row 1, column 2: \"0B\": expected"},
    {"0F0,-1B0\n", "row 1, column 2"},
    {"0F0,0B99999999999999999999\n", "row 1, column 2: \"0B99999999999999999999\": micro-batch too large"},
    {"99999999999F0\n", "row 1, column 1: \"99999999999F0\": stage too large"},
    {"65535F0\n", "stage too large"},
    {"0F0,0F2,0B0,0B2\n",
     "row 1, column 2: 0F2: 0F1 is missing, the file has 3 micro-batches by 0F2 in row 1, column 2"},
    {"0F1073741823,0B0\n", "row 1, column 1: 0F1073741823: 0F0 is missing"},
    {"0F0,0B0\n2F0,2B0\n", "row 2, column 1: 2F0: leaves a gap, stage 1 appears nowhere"},
    {"0F0,0B0\n0F1,0B1\n", "row 2, column 1: 0F1: stage 0 belongs to row 1 already"},
    {"(0F0;0B0\n", "expected a pair"},
    {"(0F0;0B0)OVERLAP\n", "expected a pair"},
    {"(0F0,0B0)OVERLAP_F_B\n", "row 1, column 1"},
    {"(0F0;0SEND_F0)OVERLAP_F_B\n", "only two compute actions"},
    {"# speed=9\n0F0,0B0\n", "row 1, column 1: \"speed=9\": expected barrier_at_end"},
    {"0F0,\x01\x02\n", "row 1, column 2"},
};

TEST(ScheduleText, BrokenFilesNameTheCell) {
  for (const Broken& broken : kBroken) {
    try {
      parse_schedule_csv(broken.text, "bad.csv");
      ADD_FAILURE() << broken.text << " was accepted";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(broken.says)) << broken.text;
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "one line";
    }
  }
}

TEST(ScheduleText, TenMillionCellsOfNonsense) {
  const int cells = test::cases_here(10'000'000, 1'000'000);
  std::string text;
  text.reserve(50'000'000);
  for (int i = 0; i < cells; ++i) text += "0F7,";
  text += "nonsense\n";
  EXPECT_THROW(parse_schedule_csv(text, "big.csv"), InputError);
}

TEST(ScheduleText, BrokenJson) {
  const std::string good = to_json(one_f_one_b(2, 2));
  EXPECT_NO_THROW(parse_schedule_json(good, "x"));
  const std::pair<std::string, std::string> changes[] = {
      {"\"ranks\":2", "\"ranks\":-2"},
      {"\"stages\":2", "\"stages\":60000"},
      {"\"microbatches\":2", "\"microbatches\":1000000000"},
      {"\"rank_of_stage\":[0,1]", "\"rank_of_stage\":[0,7]"},
      {"\"rank_of_stage\":[0,1]", "\"rank_of_stage\":[0]"},
      {"\"0F0\"", "17"},
      {"\"0F0\"", "\"0Q0\""},
      {"\"vocab\":\"none\"", "\"vocab\":\"all\""},
  };
  for (const auto& [from, to] : changes) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    EXPECT_THROW(parse_schedule_json(text, "x"), InputError) << to;
  }
}

}  // namespace
}  // namespace plumbline::schedule_text_test
