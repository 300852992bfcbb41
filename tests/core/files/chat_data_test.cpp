// Chats: files of both forms, refusals, and the order in which they are packed and given to replicas.
#include "core/files/chat_data.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/base/error.hpp"
#include "core/files/chat_packs.hpp"

namespace plumbline::chat_data_test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Le;
namespace fs = std::filesystem;

std::string write(const std::string& text) {
  const fs::path path = fs::path(testing::TempDir()) / (std::to_string(::getpid()) + "chats.jsonl");
  std::ofstream(path) << text;
  return path.string();
}

TEST(ChatData, BothFormsHaveTargets) {
  const ChatData chats(write("{\"input_ids\": [3, 1, 4], \"labels\": [3, -100, 4], \"text\": null}\n\n"
                             "{\"input_ids\": [9, 2, 6, 5], \"assistant_masks\": [0, 1, 0, 1]}"),
                       10, 4);
  ASSERT_EQ(chats.size(), 2);
  EXPECT_THAT(chats.ids(0), ElementsAre(3, 1, 4));
  EXPECT_THAT(chats.ids(1), ElementsAre(9, 2, 6, 5));
  const auto answered = [&](std::int64_t conversation) {
    std::vector<bool> all;
    for (std::int64_t j = 0; j < chats.length(conversation); ++j)
      all.push_back(chats.answered(conversation, j));
    return all;
  };
  EXPECT_THAT(answered(0), ElementsAre(false, false, true));  // nothing is before the first token
  EXPECT_THAT(answered(1), ElementsAre(false, true, false, true));
}

TEST(ChatData, OtherFilesAreOneClearLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "found no line, expected a JSON object with input_ids on every line"},
      {"[1]", "chats.jsonl:2: "},
      {"{\"input_ids\": [1, 2]", "chats.jsonl:2: "},
      {"{\"labels\": [1, 2]}", "input_ids"},
      {"{\"input_ids\": 7, \"labels\": [7]}", "input_ids: found 7, expected a list"},
      {"{\"input_ids\": [1, 10], \"labels\": [1, 10]}",
       "input_ids: found 10 at place 1, expected an id of the vocabulary from 0 to 9; change"},
      {"{\"input_ids\": [1, -1], \"labels\": [1, 1]}", "found -1 at place 1"},
      {"{\"input_ids\": [1, 1.5], \"labels\": [1, 1]}", "found 1.5 at place 1"},
      {"{\"input_ids\": [1], \"labels\": [1]}", "found 1 tokens, expected 2 to seq_length 4"},
      {"{\"input_ids\": [1,1,1,1,1], \"labels\": [1,1,1,1,1]}",
       "found 5 tokens, expected 2 to seq_length 4; change seq_length, or shorten the conversation"},
      {"{\"input_ids\": [1, 2]}", "found neither labels nor assistant_masks"},
      {"{\"input_ids\": [1, 2], \"labels\": [1, 2], \"assistant_masks\": [1, 1]}",
       "found labels and assistant_masks, expected one of them"},
      {"{\"input_ids\": [1, 2], \"labels\": [2]}", "labels: found 1 numbers, expected 2, one per id"},
      {"{\"input_ids\": [1, 2], \"labels\": [-100, 3]}", "found 3 at place 1, expected its id 2 or -100"},
      {"{\"input_ids\": [1, 2], \"assistant_masks\": [1, 2]}", "expected a number from 0 to 1"},
      {"{\"input_ids\": [1, 2], \"labels\": [1, -100]}", "labels: found no answered token"},
      {R"({"input_ids": [1,2,3], "labels": [1,2,3], "position_ids": [0,1,0]})",
       "position_ids: found 0 at place 2, expected 2; change to a line per conversation; packed_sequence"},
      {R"({"input_ids": [1,2,3], "labels": [1,2,3], "position_ids": [1,2,3]})", "found 1 at place 0"},
      {R"({"input_ids": [1,2,3], "labels": [1,2,3], "position_ids": [0,1]})", "found 2 numbers, expected 3"},
      {R"({"input_ids": [1,2,3], "labels": [1,2,-100], "attention_mask": [1,1,0]})",
       "attention_mask: found 0 at place 2, expected 1; change the line to tokens without padding"},
      {R"({"input_ids": [1,2], "labels": [1,2], "loss_mask": [0,1]})",
       "loss_mask: found a list of numbers, expected no such list besides input_ids, labels, "
       "assistant_masks, "
       "position_ids and attention_mask; change the labels to what it says, or leave it out"},
      {R"({"input_ids": [1,2], "labels": [1,2], "weights": [0.5,true]})", "weights: found a list of numbers"},
      {R"({"input_ids": [1,2], "labels": [1,2], "seq_lengths": [1,1]})", "seq_lengths: found a list of num"},
  };
  for (const auto& [text, fragment] : cases) {
    try {
      const ChatData chats(write("\n" + std::string(text)), 10, 4);
      ADD_FAILURE() << text;
    } catch (const InputError& error) {
      const std::string line = error.what();
      EXPECT_THAT(line, HasSubstr(fragment));
      EXPECT_THAT(line, HasSubstr("data: "));
      EXPECT_EQ(line.find('\n'), std::string::npos);
    }
  }
}

TEST(ChatData, KeysThatAreNotReadAreNamedOnce) {
  const std::string line =
      R"({"input_ids": [1,2,3], "labels": [1,2,3], "position_ids": [0,1,2], "attention_mask": [1,1,1])";
  EXPECT_TRUE(ChatData(write(line + R"(, "text": null})"), 10, 4).unread_keys().empty());
  const ChatData chats(write(line + R"(, "weight": 0.5, "tools": [{}]})" + "\n" + line +
                             R"(, "weight": 2, "messages": ["a"]})"),
                       10, 4);
  EXPECT_THAT(chats.unread_keys(), ElementsAre("messages", "tools", "weight"));
}

ChatData chats_of(const std::vector<int>& lengths) {
  std::string text;
  for (const int length : lengths) {
    std::string ids = "1";
    for (int j = 1; j < length; ++j) ids += ",1";
    text += "{\"input_ids\":[" + ids + "],\"labels\":[" + ids + "]}\n";
  }
  return {write(text), 2, 64};
}

RunConfig packing(std::int64_t batch, int replicas, std::uint64_t seed = 1) {
  RunConfig config;
  config.generation.task = RunTask::sft;
  config.batch = {.seq_length = 64, .global_batch_size = batch, .packed_sequence = true};
  config.parallel.world_size = replicas;
  config.measure.seed = seed;
  return config;
}

TEST(ChatOrder, WithoutPackingItIsTheFilesOrder) {
  RunConfig config = packing(2, 1);
  config.batch.packed_sequence = false;
  const ChatOrder order = order_of(chats_of({5, 3, 9}), config);
  for (const std::int64_t sample : {0, 1, 2, 3, 4})
    EXPECT_THAT(order.sample(sample), ElementsAre(sample % 3));
}

TEST(ChatOrder, PacksHoldEveryConversationOnceAndFollowTheSeed) {
  std::vector<int> lengths;
  for (int i = 0; i < 200; ++i) lengths.push_back(2 + i * 37 % 63);
  const ChatData chats = chats_of(lengths);
  const ChatOrder order = order_of(chats, packing(8, 2));
  std::multiset<std::int64_t> seen;
  std::int64_t tokens = 0;
  for (const auto& pack : order.sequences) {
    std::int64_t sum = 0;
    for (const std::int64_t conversation : pack) sum += chats.length(conversation);
    EXPECT_LE(sum, 64);
    tokens += sum;
    seen.insert(pack.begin(), pack.end());
  }
  EXPECT_EQ(seen.size(), 200U);
  EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 200U);
  // First-fit-decreasing needs at most 11/9 of the best number of packs, and one more (Dósa 2007).
  const auto packs = std::ssize(order.sequences);
  EXPECT_LE(packs, (tokens + 63) / 64 * 11 / 9 + 1);
  EXPECT_EQ(std::ssize(order.samples), (packs + 7) / 8 * 8);
  EXPECT_EQ(order.samples, order_of(chats, packing(8, 2)).samples);
  EXPECT_NE(order.samples, order_of(chats, packing(8, 2, 2)).samples);
}

TEST(ContextPacks, GroupsFollowTheLengthsAndCoverTheRanks) {
  for (const int ranks : {2, 4, 8}) {
    const std::int64_t rows = 64 / ranks;
    std::vector<int> lengths;
    for (int i = 0; i < 300; ++i) lengths.push_back(2 + i * 37 % 63);
    const ChatData chats = chats_of(lengths);
    RunConfig config = packing(4, 2 * ranks);
    config.parallel.context = ranks;
    config.batch.dynamic_context_parallel = true;
    const ChatOrder order = order_of(chats, config);
    std::multiset<std::int64_t> seen;
    double filled = 0;
    for (const GroupedSequence& sequence : order.groups) {
      int first = 0;
      for (const ContextGroup& group : sequence) {
        EXPECT_EQ(first % group.ranks, 0);  // a group is neighbours, and rings of one size never overlap
        first += group.ranks;
        std::int64_t used = 0;
        for (const std::int64_t conversation : group.conversations) {
          const auto length = static_cast<double>(chats.length(conversation));
          const double needed = std::exp2(std::ceil(std::log2(length / static_cast<double>(rows))));
          EXPECT_EQ(group.ranks, std::max(1.0, needed)) << length;
          used += rows_on_each(chats.length(conversation), group.ranks);
          EXPECT_GE(rows_on_each(chats.length(conversation), group.ranks) * group.ranks, length);
          seen.insert(conversation);
        }
        EXPECT_LE(used, rows);
        filled += static_cast<double>(used * group.ranks);
      }
      EXPECT_EQ(first, ranks);
    }
    EXPECT_EQ(seen.size(), 300U);
    EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 300U);
    EXPECT_GT(filled / static_cast<double>(64 * order.groups.size()), 0.8);
  }
}

TEST(ContextPacks, RanksAndRowsOfAConversation) {
  EXPECT_THAT((std::vector{ranks_of(1, 8), ranks_of(8, 8), ranks_of(9, 8), ranks_of(17, 8), ranks_of(33, 8)}),
              ElementsAre(1, 1, 2, 4, 8));
  EXPECT_EQ(rows_on_each(7, 1), 7);
  EXPECT_EQ(rows_on_each(9, 2), 6);  // chunks of 3, 3 tokens of padding
  EXPECT_EQ(rows_on_each(32, 4), 8);
}

TEST(ContextPacks, GroupsOfASequenceHaveSimilarWork) {
  // Two ranks of 32 rows: alone they would be paired as they come.
  const ChatData chats = chats_of({32, 20, 31, 21});
  const auto sequences = grouped_sequences(
      {0, 2, 3, 1}, [&](std::int64_t i) { return chats.length(i); }, 2, 32);
  ASSERT_EQ(sequences.size(), 2U);
  EXPECT_THAT(sequences[0][0].conversations, ElementsAre(0));
  EXPECT_THAT(sequences[0][1].conversations, ElementsAre(2));
  EXPECT_THAT(sequences[1][0].conversations, ElementsAre(3));
  EXPECT_THAT(sequences[1][1].conversations, ElementsAre(1));
}

TEST(ChatOrder, ReplicasOfAStepGetEvenWork) {
  // Packs of one conversation: two replicas with two packs each.
  const ChatData chats = chats_of({64, 40, 50, 55});
  const ChatOrder order = order_of(chats, packing(4, 2));
  const auto length = [&](std::int64_t sample) { return chats.length(order.sample(sample).front()); };
  EXPECT_EQ(std::set({length(0), length(2)}), (std::set<std::int64_t>{64, 40}));  // replica 0
  EXPECT_EQ(std::set({length(1), length(3)}), (std::set<std::int64_t>{55, 50}));
}

}  // namespace
}  // namespace plumbline::chat_data_test
