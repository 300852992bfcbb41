// Ranks that come with something else than rank 0 are named, with their host.
#include "core/backends/mpi/agreement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/backends/mpi/mpi_header.hpp"
#include "core/base/error.hpp"

namespace plumbline::agreement_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Agreement, TheFirstDifferenceIsOneLine) {
  const RankFacts same = {{"version", "1"}, {"seed", "7"}};
  const struct {
    RankFacts other;
    const char* said;
  } cases[] = {
      {same, ""},
      {{{"version", "2"}, {"seed", "7"}}, "version: rank 0 on a has 1, rank 2 on b has 2;"},
      {{{"version", "1"}, {"seed", "8"}}, "seed: rank 0 on a has 7, rank 2 on b has 8;"},
      {{{"version", "1"}, {"seed", "7"}, {"more", "x\ny"}},
       "more: rank 0 on a has nothing, rank 2 on b has x"},
      {{{"version", "1"}}, "seed: rank 0 on a has 7, rank 2 on b has nothing;"},
  };
  for (const auto& c : cases) {
    const std::string line = first_difference({same, same, c.other}, {"a", "a", "b"});
    EXPECT_THAT(line, HasSubstr(c.said));
    EXPECT_EQ(line.empty(), std::string(c.said).empty());
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
}

TEST(Agreement, RanksThatAgreeGoOn) {
  require_same_on_all_ranks({{"version", "1"}});
  require_same_on_all_ranks({});
}

}  // namespace
}  // namespace plumbline::agreement_test
