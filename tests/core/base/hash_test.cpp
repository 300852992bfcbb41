// Hashes are part of cell ids, lanes and weights: their values must not change.
#include "core/base/hash.hpp"

#include <gtest/gtest.h>

namespace plumbline::hash_test {
namespace {

TEST(Hash, Fnv1aHasItsPublishedValues) {
  static_assert(fnv1a("") == 0xcbf29ce484222325U);
  static_assert(fnv1a("a") == 0xaf63dc4c8601ec8cU);
  static_assert(fnv1a("foobar") == 0x85944171f73967e8U);
  EXPECT_EQ(fnv1a("bar", fnv1a("foo")), fnv1a("foobar"));
  EXPECT_EQ(fnv1a_step(fnv1a("fooba"), 'r'), fnv1a("foobar"));
  EXPECT_EQ(fnv1a("\xff"), fnv1a_step(kFnvBasis, 255));  // a char may have a sign, a byte has none
}

TEST(Hash, WordsAreMixedAsBefore) {
  static_assert(mix_word(0, 0) == 0);
  static_assert(mix_word(0, 1) == 0x9e3779bd8ef1b1deU);
  static_assert(mix_word(mix_word(0, 1), 2) == 0x9c388adbb85671f6U);
  EXPECT_NE(mix_word(mix_word(0, 1), 2), mix_word(mix_word(0, 2), 1));
}

}  // namespace
}  // namespace plumbline::hash_test
