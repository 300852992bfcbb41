// Fresh weights: the same on every maker.
#include <gtest/gtest.h>

#include <vector>

#include "bench/training/weights/weights.hpp"

namespace plumbline::training::random_weights_test {
namespace {

std::vector<float> made(const SliceReader& reader, Slice slice, std::int64_t stride) {
  std::vector<float> values(static_cast<std::size_t>(slice.rows * stride), -1.0F);
  reader(Parameter{}, slice, values.data(), stride);
  return values;
}

TEST(RandomWeights, AreTheSameFromOneThreadAndFromMany) {
  Slice slice;
  slice.tensor = "model.layers.0.mlp.up_proj.weight";
  slice.tensor_cols = 1026;  // rows begin within a block of four
  slice.row = 3;
  slice.col = 1;
  slice.cols = 1025;
  for (const std::int64_t rows : {1, 3, 700, 1031}) {  // one part, and several of unequal rows
    SCOPED_TRACE(rows);
    slice.rows = rows;
    const std::vector<float> alone = made(random_weights(7, 0.02, 1), slice, 1030);
    EXPECT_EQ(made(random_weights(7, 0.02, 5), slice, 1030), alone);
    EXPECT_EQ(made(random_weights(7, 0.02), slice, 1030), alone);
    EXPECT_NE(made(random_weights(8, 0.02, 5), slice, 1030), alone);
    EXPECT_EQ(alone[1025], -1.0F) << "between rows nothing is written";
  }
}

}  // namespace
}  // namespace plumbline::training::random_weights_test
