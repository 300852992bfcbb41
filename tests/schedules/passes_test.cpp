// The passes: transfers, split and merge, end of the step; and the trace files.
#include "schedules/passes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/simulate/simulator.hpp"
#include "core/base/error.hpp"
#include "core/schedule_text/schedule_text.hpp"
#include "core/trace/trace_files.hpp"
#include "core/validate/validate.hpp"
#include "schedules/make_schedule.hpp"

namespace plumbline::passes_test {
namespace {

TEST(Passes, TransfersStandNextToWhatTheyServe) {
  EXPECT_EQ(to_csv(add_transfers(one_f_one_b(2, 2), TransferOrder::sends_first)),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
  // One side of each exchange receives first when sends block.
  EXPECT_EQ(to_csv(add_transfers(one_f_one_b(2, 2))),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1F0,1B0,1RECV_F1,1SEND_B0,1F1,1B1,1SEND_B1\n");
}

TEST(Passes, PostedTransfersStayWhereTheyAreNeeded) {
  // Rank 0's W lies between its SEND and its RECV: ranks that block would have to receive before it.
  const Schedule schedule =
      parse_schedule_csv("0F0,0I0,0F1,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n", "posted");
  const std::string posted =
      "0F0,0SEND_F0,0RECV_B0,0I0,0F1,0SEND_F1,0W0,0RECV_B1,0I1,0W1\n"
      "1RECV_F0,1F0,1I0,1SEND_B0,1RECV_F1,1F1,1I1,1SEND_B1,1W0,1W1\n";
  EXPECT_EQ(to_csv(add_transfers(schedule, TransferOrder::posted)), posted);
  // Rank 1 takes chunk 1's first activations in another order than rank 0 sends them: as sends_first.
  const Schedule mixed = interleaved(2, 8, 2, 6);
  EXPECT_EQ(add_transfers(mixed, TransferOrder::posted).actions,
            add_transfers(mixed, TransferOrder::sends_first).actions);
}

TEST(Passes, NoTransferWithinARank) {
  const std::string text = to_csv(add_transfers(zb_v(2, 3)));
  EXPECT_EQ(text.find("1SEND_F"), std::string::npos);  // stages 1 and 2 are both on rank 1
  EXPECT_EQ(text.find("2RECV_F"), std::string::npos);
  EXPECT_NE(text.find("2SEND_F0"), std::string::npos);
}

TEST(Passes, TransfersAreReplacedAndDropped) {
  const Schedule schedule = interleaved(4, 8, 2, 4);
  const Schedule twice = add_transfers(add_transfers(schedule, TransferOrder::sends_first));
  EXPECT_EQ(twice.actions, add_transfers(schedule).actions);
  EXPECT_EQ(drop_transfers(twice).actions, schedule.actions);
}

TEST(Passes, ImpossibleOrderIsRefused) {
  const Schedule schedule = parse_schedule_csv("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", "cycle");
  EXPECT_THROW(add_transfers(schedule), InputError);
}

TEST(Passes, LargeGroupsReceiveEarly) {
  // Groups larger than P: rank 0 has to take chunk 1's first activations before their turn.
  const Schedule schedule = add_transfers(interleaved(2, 8, 2, 6));
  EXPECT_NO_THROW(validate(schedule));
}

TEST(Passes, SplitAndMergeAreInverse) {
  for (const char* name : {"gpipe", "1f1b", "interleaved"}) {
    ScheduleRequest request;
    request.name = name;
    request.ranks = 4;
    request.microbatches = 8;
    const Schedule schedule = make_schedule(request);
    const Schedule split = split_backward(schedule);
    EXPECT_NO_THROW(validate(split));
    EXPECT_EQ(merge_backward(split).actions, schedule.actions) << name;
    const Schedule with_transfers = add_transfers(schedule);
    EXPECT_NO_THROW(validate(split_backward(with_transfers)));
    EXPECT_EQ(merge_backward(split_backward(with_transfers)).actions, with_transfers.actions) << name;
  }
  // Separated I and W stay split.
  EXPECT_EQ(to_csv(merge_backward(zb_h1(2, 2))), "0F0,0F1,0B0,0B1\n1F0,1I0,1F1,1I1,1W0,1W1\n");
}

TEST(Passes, SplittingAnOverlappedPairPutsWAfterIt) {
  const Schedule split = split_backward(parse_schedule_csv("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n", "x"));
  EXPECT_EQ(to_csv(split), "0F0,(0F1;0I0)OVERLAP_F_B,0W0,0I1,0W1\n");
  EXPECT_NO_THROW(validate(split));
}

TEST(Passes, DeferredOutputGradientsFollowAllElseOfTheirRank) {
  const Schedule deferred = defer_output_gradients(one_f_one_b(2, 2));
  EXPECT_EQ(to_csv(deferred), "0F0,0F1,0B0,0B1\n1F0,1I0,1F1,1I1,1W0,1W1\n");
  EXPECT_EQ(to_csv(add_transfers(deferred, TransferOrder::posted)),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1F0,1I0,1SEND_B0,1RECV_F1,1F1,1I1,1SEND_B1,1W0,1W1\n");
  EXPECT_EQ(to_csv(defer_output_gradients(interleaved(2, 2, 2, 2))),
            "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n1F0,1F1,3F0,3I0,3F1,3I1,1B0,1B1,3W0,3W1\n");
  EXPECT_EQ(peak_in_flight(deferred, 1), 1);  // logits alone are kept
  EXPECT_NO_THROW(validate(deferred));
  EXPECT_THROW(defer_output_gradients(zb_v(2, 3)), InputError);
  EXPECT_THROW(defer_output_gradients(one_f_one_b_pairs(2, 4)), InputError);  // pairs
}

TEST(Passes, EndOfTheStep) {
  const auto last = [](const Schedule& schedule, int rank, std::size_t count) {
    const auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
    std::string text;
    for (std::size_t i = actions.size() - count; i < actions.size(); ++i) text += to_string(actions[i]) + " ";
    return text;
  };
  const Schedule schedule = add_step_end(one_f_one_b(3, 4), {true, true});
  EXPECT_EQ(last(schedule, 0, 3), "0ARG0 0ARE0 0OPT0 ");
  EXPECT_EQ(last(schedule, 1, 2), "1ARG0 1OPT0 ");
  EXPECT_EQ(last(schedule, 2, 3), "2ARG0 2ARE0 2OPT0 ");
  // In a V first and last stage are on one rank: nothing to reduce between ranks.
  EXPECT_EQ(last(add_step_end(zb_v(3, 5), {false, true}), 0, 2).find("ARE"), std::string::npos);
  // Two routes are two replicas, and their embeddings meet on one rank.
  EXPECT_EQ(last(add_step_end(dualpipe(4, 8), {false, true}), 0, 2), "0ARG0 0OPT0 ");
}

TEST(TraceFiles, SvgAndTraceHoldEveryAction) {
  for (const std::string_view name : schedule_names()) {
    ScheduleRequest request;
    request.name = name;
    request.ranks = 4;
    request.microbatches = 8;
    const Schedule schedule = make_schedule(request);
    const StageCosts each{{1}, {2}, {1}, {1}, {1}, {1}, {1}, {1}, {1}};
    const Trace trace = simulate(schedule, uniform_costs(schedule.stages, each));
    std::size_t actions = 0;
    for (const auto& list : schedule.actions) actions += list.size();
    const std::string svg = to_svg(schedule, trace);
    std::size_t boxes = 0;
    for (std::size_t at = 0; (at = svg.find("<title>", at)) != std::string::npos; ++at) ++boxes;
    EXPECT_EQ(boxes, actions) << name;
    EXPECT_EQ(svg.rfind("<svg", 0), 0U);
    for (const char* words : {">Forward</text>", "bubble fraction 0.", "bubble ratio ", ">time, s</text>",
                              "4 pipeline ranks, 8 micro-batches"})
      EXPECT_NE(svg.find(words), std::string::npos) << name << ": " << words;
    EXPECT_NE(to_svg(schedule, trace, true).find(">time, forwards of one stage</text>"), std::string::npos);
    const auto json = nlohmann::json::parse(to_trace_json(schedule, trace));
    const auto& events = json["traceEvents"];
    const auto is_action = [](const auto& event) {
      const std::string category = event.value("cat", "");  // collectives have lanes of their own
      return event["ph"] == "X" && category != "collective" && category != "exposed";
    };
    EXPECT_EQ(std::count_if(events.begin(), events.end(), is_action), static_cast<std::ptrdiff_t>(actions))
        << name;
  }
}

}  // namespace
}  // namespace plumbline::passes_test
