// Values of moe_routing: files as save_routing writes them, with any content, and routings that are stated.
#include "analysis/work/routing/given_routing.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>

#include "analysis/work/routing/drawn_routing.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::given_routing_test {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Four experts, two per token; ten tokens, two copies, one MoE layer after a dense one, one micro-batch.
RunConfig tiny() {
  RunConfig config;
  config.model = *find_preset("mixtral-8x7b");
  config.model.layers = 2;
  config.model.mixture.experts = 4;
  config.model.mixture.first_dense = 1;
  config.model.mixture.dense_ffn = 64;
  config.batch = {.seq_length = 10, .micro_batch_size = 1, .global_batch_size = 2};
  config.parallel.world_size = 2;
  return config;
}

constexpr const char* kNames = "copy,layer,microbatch,expert 0,expert 1,expert 2,expert 3\n";

std::string complaint(const std::string& text) {
  return test::refusal_of([&] { (void)parse_routing(text, "routing.csv", tiny()); });
}

TEST(GivenRouting, AFileIsReadWhole) {
  const auto routing = parse_routing(std::string(kNames) + "1,1,0,10,0,4,6\r\n0,1,0,5,5,5,5\n", "x", tiny());
  ASSERT_EQ(routing.size(), 2U);
  EXPECT_EQ(routing[0].copy, 1);
  EXPECT_EQ(routing[0].layer, 1);
  EXPECT_EQ(routing[0].microbatch, 0U);
  EXPECT_EQ(routing[0].tokens, (std::vector<std::int32_t>{10, 0, 4, 6}));
}

/// The largest peak of several steps counts; a step is whole.
TEST(GivenRouting, AFileMayHaveSeveralSteps) {
  const std::string names = std::string("step,") + kNames;
  const auto steps = parse_routing_steps(
      names + "4,1,1,0,10,0,4,6\n3,0,1,0,5,5,5,5\n4,0,1,0,5,5,5,5\n3,1,1,0,6,4,5,5\n", "x", tiny());
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0][1].tokens, (std::vector<std::int32_t>{6, 4, 5, 5}));
  EXPECT_EQ(parse_routing(names + "0,1,1,0,10,0,4,6\n0,0,1,0,5,5,5,5\n", "x", tiny()).size(), 2U);
  EXPECT_THAT(complaint(names), HasSubstr("found no lines with tokens"));
  EXPECT_THAT(complaint(names + "0,0,1,0,5,5,5,5\n0,1,1,0,5,5,5,5\n1,1,1,0,5,5,5,5\n"),
              HasSubstr("found 1 lines with tokens of step 1, expected 2 copies"));
  EXPECT_THAT(complaint(names + "0,0,1,0,5,5,5,4\n"), HasSubstr("routing.csv:2: found 19 tokens"));
  EXPECT_THAT(complaint(names + "0,0,1,0,5,5,5\n"), HasSubstr("in column 7 of 8"));
}

TEST(GivenRouting, OtherFilesAreRefusedInOneLine) {
  struct Case {
    std::string text;
    const char* reason;
  };
  const std::string names = kNames;
  const Case cases[] = {
      {"", "routing.csv:0: found another first line"},
      {"{}", "routing.csv:1: found another first line"},
      {names, "routing.csv: found 0 lines with tokens, expected 2 copies x 1 layers x 1 micro-batches"},
      {names + "0,1,0,5,5,5,5\n", "routing.csv: found 1 lines with tokens"},
      {names + "0,1,0,5,5,5,5\n0,1,0,5,5,5,5\n",
       "routing.csv:3: found this copy, layer and micro-batch again"},
      {names + "2,1,0,5,5,5,5\n", "routing.csv:2: found copy 2, expected 0 to 1"},
      {names + "0,0,0,5,5,5,5\n", "routing.csv:2: found layer 0, expected 1 to 1"},
      {names + "0,1,1,5,5,5,5\n", "routing.csv:2: found micro-batch 1, expected 0 to 0"},
      {names + "0,1,0,5,5,5,4\n",
       "routing.csv:2: found 19 tokens of all experts, expected tokens x top-k = 10 x 2"},
      {names + "0,1,0,11,9,0,0\n", "routing.csv:2: found 11 tokens of one expert, expected at most 10"},
      {names + "0,1,0,21,-1,0,0\n", "routing.csv:2: found no number from 0 to 2147483647 in column 5 of 7"},
      {names + "0,1,0,5,5,5\n", "in column 6 of 7"},
      {names + "0,1,0,5,5,5,5,5\n", "in column 7 of 7"},
      {names + "0,1,0,99999999999999999999,0,0,0\n", "in column 4 of 7"},
      {names + "0,1,0,2147483647,2147483647,2147483647,2147483647\n", "found 8589934588 tokens of all"},
      {names + "0,1,0,5,5,5,nan\n", "in column 7 of 7"},
      {names + std::string("0,1,0,5,5,\0,5\n", 14), "in column 6 of 7"},
      {names + "\n", "in column 1 of 7"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(complaint(c.text), HasSubstr(c.reason));
    EXPECT_THAT(complaint(c.text), Not(HasSubstr("\n")));
  }
}

std::vector<std::int32_t> tokens_of(RunConfig config, const std::string& routing) {
  config.mixture.routing = routing;
  EXPECT_EQ(why_invalid(config).value_or(""), "");
  const std::vector<RoutedTokens> all = given_routing(config);
  EXPECT_EQ(all.size(), 2U);
  EXPECT_EQ(all.front().tokens, all.back().tokens);
  return all.front().tokens;
}

TEST(GivenRouting, StatedRoutingsAreWhatTheirNamesSay) {
  using Tokens = std::vector<std::int32_t>;
  RunConfig config = tiny();
  EXPECT_EQ(tokens_of(config, "balanced"), (Tokens{5, 5, 5, 5}));
  config.model.mixture.experts = 8;
  EXPECT_EQ(tokens_of(config, "balanced"), (Tokens{3, 3, 3, 3, 2, 2, 2, 2}));
  EXPECT_EQ(tokens_of(config, "worst"), (Tokens{3, 3, 3, 3, 2, 2, 2, 2}));  // all experts are here
  config.parallel.expert = 2;
  EXPECT_EQ(tokens_of(config, "worst"), (Tokens{5, 5, 5, 5, 0, 0, 0, 0}));
  config.model.mixture.top_k = 6;  // four of six can be of one rank
  EXPECT_EQ(tokens_of(config, "worst"), (Tokens{10, 10, 10, 10, 5, 5, 5, 5}));
  config.model.mixture.top_k = 2;
  EXPECT_EQ(tokens_of(config, "zipf:0"), (Tokens{3, 3, 3, 3, 2, 2, 2, 2}));
  // 20/(1 + 1/2 + … + 1/8) = 7.36, 3.68, 2.45, 1.84, 1.47, 1.23, 1.05, 0.92; the remainder goes to the
  // largest fractions.
  EXPECT_EQ(tokens_of(config, "zipf:1"), (Tokens{7, 4, 2, 2, 2, 1, 1, 1}));
}

TEST(GivenRouting, AMeanLoadThatNoTokensHaveIsRefused) {
  RunConfig config = tiny();
  config.mixture.routing = "zipf:3";
  try {
    (void)mean_load(config, given_routing(config));
    FAIL() << "expected an error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("moe_routing: found zipf:3, which gives 0.849 of all choices to one"));
  }
}

TEST(GivenRouting, DrawnOnesHaveTheMeanLoad) {
  RunConfig config = tiny();
  config.model.mixture.experts = 8;
  config.batch.seq_length = 1000;
  config.mixture.routing = "zipf:0.5";
  std::vector<RoutedTokens> routing = given_routing(config);
  const std::vector<RoutedTokens> given = routing;
  const MeanLoad load = mean_load(config, given);
  EXPECT_TRUE(load.front().empty());
  std::mt19937_64 random(3);
  std::vector<double> sums(8);
  std::vector<double> squares(8);
  constexpr int kDraws = 2000;
  for (int i = 0; i < kDraws; ++i) {
    draw_routing(load, random, routing);
    const std::vector<std::int32_t>& tokens = routing.back().tokens;
    EXPECT_EQ(std::accumulate(tokens.begin(), tokens.end(), 0), 2000);
    for (std::size_t e = 0; e < 8; ++e) {
      sums[e] += tokens[e];
      squares[e] += static_cast<double>(tokens[e]) * tokens[e];
    }
  }
  for (std::size_t e = 0; e < 8; ++e) {
    const double share = load[1][e];
    const double variance = 2000 * share * (1 - share);  // of a multinomial
    const double mean = sums[e] / kDraws;
    EXPECT_NEAR(mean, 2000 * share, 5 * std::sqrt(variance / kDraws));
    EXPECT_NEAR((squares[e] / kDraws - mean * mean) / variance, 1, 0.2);
    EXPECT_NEAR(given.back().tokens[e], 2000 * share, 1);
  }
}

}  // namespace
}  // namespace plumbline::given_routing_test
