#include "core/schedule/vocab_passes.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"

namespace plumbline::vocab_passes_test {
namespace {

TEST(VocabPasses, NamesThereAndBack) {
  struct Case {
    VocabPasses passes;
    const char* in_schedules;
    const char* in_configurations;
  };
  for (const Case& c : {Case{VocabPasses::none, "none", "none"},
                        {VocabPasses::two_barriers, "two_barriers", "vocab-1"},
                        {VocabPasses::one_barrier, "one_barrier", "vocab-2"},
                        {VocabPasses::interlaced, "interlaced", "interlaced"}}) {
    EXPECT_EQ(name_of(c.passes), c.in_schedules);
    EXPECT_EQ(vocab_parallel_name(c.passes), c.in_configurations);
    EXPECT_EQ(find_vocab_passes(c.in_schedules), c.passes);
    EXPECT_EQ(find_vocab_parallel(c.in_configurations), c.passes);
    EXPECT_EQ(parse_vocab_parallel(c.in_configurations), c.passes);
  }
  EXPECT_FALSE(find_vocab_passes("vocab-1"));
  EXPECT_FALSE(find_vocab_parallel("two_barriers"));
  EXPECT_THROW(parse_vocab_parallel("vocab-3"), InputError);
}

}  // namespace
}  // namespace plumbline::vocab_passes_test
