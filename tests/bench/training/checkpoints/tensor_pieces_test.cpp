// Every element of a stretch of memory is in exactly one piece, at its own place of its tensor.
#include "bench/training/checkpoints/tensor_pieces.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <tuple>

#include "bench/training/checkpoints/shard_names.hpp"

namespace plumbline::training::tensor_pieces_test {
namespace {

using Place = std::tuple<std::string, std::int64_t, std::int64_t>;  // tensor, row, column

/// Two rectangles below each other, or side by side where `wide`, with rows of other tensors around them.
Parameter parameter_of(std::mt19937& random, bool wide) {
  const auto some = [&](int most) { return std::int64_t{1} + random() % static_cast<unsigned>(most); };
  Parameter parameter;
  parameter.offset = some(40) - 1;
  Slice a;
  a.tensor = "a";
  a.rows = some(5);
  a.cols = some(7);
  a.row = some(3) - 1;
  a.col = some(3) - 1;
  Slice b = a;
  b.tensor = "b";
  if (wide) {
    b.cols = some(7);
    b.local_col = a.cols + 2;  // padding between them
    parameter.rows = a.rows;
    parameter.cols = b.local_col + b.cols;
  } else {
    b.rows = some(5);
    b.local_row = a.rows + 1;
    parameter.rows = b.local_row + b.rows;
    parameter.cols = a.cols;
  }
  for (Slice* slice : {&a, &b}) {
    slice->tensor_rows = slice->row + slice->rows + 1;
    slice->tensor_cols = slice->col + slice->cols + 2;
  }
  parameter.slices = {a, b};
  return parameter;
}

std::map<std::int64_t, Place> places_of(const Parameter& parameter) {
  std::map<std::int64_t, Place> places;
  for (const Slice& slice : parameter.slices) {
    for (std::int64_t row = 0; row < slice.rows; ++row) {
      for (std::int64_t col = 0; col < slice.cols; ++col) {
        const std::int64_t at =
            parameter.offset + (slice.local_row + row) * parameter.cols + slice.local_col + col;
        places[at] = {slice.tensor, slice.row + row, slice.col + col};
      }
    }
  }
  return places;
}

TEST(TensorPieces, AreWhatAStretchHoldsOnceEach) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    const Parameter parameter = parameter_of(random, trial % 2 == 0);
    const auto bound = static_cast<unsigned>(parameter.end() + 10);
    const auto from = static_cast<std::int64_t>(random() % bound);
    const auto end = from + static_cast<std::int64_t>(random() % bound);
    std::map<std::int64_t, Place> found;
    for (const TensorPiece& piece : pieces_of_stretch(parameter, from, end)) {
      EXPECT_EQ(piece.tensor_rows, parameter.slices[piece.tensor == "a" ? 0 : 1].tensor_rows);
      for (std::int64_t row = 0; row < piece.rows; ++row) {
        for (std::int64_t col = 0; col < piece.cols; ++col) {
          const std::int64_t at = from + piece.offset + row * piece.stride + col;
          const Place place{piece.tensor, piece.row + row, piece.col + col};
          EXPECT_TRUE(found.emplace(at, place).second) << "twice";
        }
      }
    }
    std::map<std::int64_t, Place> expected = places_of(parameter);
    std::erase_if(expected, [&](const auto& each) { return each.first < from || each.first >= end; });
    ASSERT_EQ(found, expected) << "trial " << trial;
  }
}

TEST(TensorPieces, HaveANameThatReadsBack) {
  TensorPiece piece{"model.layers.0.up|odd", 4096, 1024, 128, 64, 2, 960, 0, 0};
  const std::string name = shard_name(kMoment2State, piece);
  EXPECT_EQ(name, "moment2|4096x1024|128:130|64:1024|model.layers.0.up|odd");
  const auto read = parse_shard_name(name);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->state, kMoment2State);
  EXPECT_EQ(shard_name(read->state, read->piece), name);
}

TEST(TensorPieces, ANameThatIsNoneIsNotTaken) {
  for (const char* name :
       {"", "weight", "weight|2x2|0:1|0:1", "weight|2x2|0:1|0:1|", "|2x2|0:1|0:1|a", "w|2x2|0:3|0:1|a",
        "w|2x2|1:1|0:1|a", "w|2x2|0:1|2:3|a", "w|2x2|-1:1|0:1|a", "w|2x2x2|0:1|0:1|a", "w|2x|0:1|0:1|a",
        "w|99999999999999999999x2|0:1|0:1|a", "w|2x2|0: 1|0:1|a", "w|2000000000000x2|0:1|0:1|a"})
    EXPECT_FALSE(parse_shard_name(name)) << name;
}

}  // namespace
}  // namespace plumbline::training::tensor_pieces_test
