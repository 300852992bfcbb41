// Bytes as text: every digit.
#include "core/base/byte_text.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace plumbline::byte_text_test {
namespace {

TEST(ByteText, UnitsAndDigits) {
  struct Case {
    std::int64_t bytes;
    const char* readable;
    const char* brief;
    const char* mebibytes;
  };
  constexpr Case kCases[] = {
      {0, "0.00 MiB", "0.00 MiB", "0 MiB"},
      {1 << 19, "0.50 MiB", "0.50 MiB", "0.5 MiB"},
      {160 << 20, "160.00 MiB", "160.00 MiB", "160 MiB"},
      {(1 << 30) - 1, "1024.00 MiB", "1024.00 MiB", "1024 MiB"},
      {1 << 30, "1.000 GiB", "1.00 GiB", "1024 MiB"},
      {85'001'093'120, "79.163 GiB", "79.16 GiB", "8.106e+04 MiB"},
      {-(1 << 20), "-1.00 MiB", "-1.00 MiB", "-1 MiB"},
  };
  for (const Case& c : kCases) {
    EXPECT_EQ(readable_bytes(static_cast<double>(c.bytes)), c.readable);
    EXPECT_EQ(brief_bytes({c.bytes}), c.brief);
    EXPECT_EQ(mebibytes({c.bytes}), c.mebibytes);
  }
  EXPECT_EQ(readable_bytes(NAN), "nan GiB");
}

TEST(ByteText, AColumnHasOneUnit) {
  EXPECT_STREQ(column_unit(kMiB - Bytes{1}).name, "KiB");
  EXPECT_STREQ(column_unit(kGiB - Bytes{1}).name, "MiB");
  EXPECT_STREQ(column_unit(kGiB).name, "GiB");
  EXPECT_EQ(column_unit(kGiB).of(kMiB * 1536), "1.500");
  EXPECT_EQ(column_unit(kMiB).of({1}), "0.000");
}

TEST(ByteText, EveryDigitWithItsSign) {
  EXPECT_EQ(signed_digits(0), "+0");
  EXPECT_EQ(signed_digits(999), "+999");
  EXPECT_EQ(signed_digits(-1000), "-1 000");
  EXPECT_EQ(signed_digits(17'235'437'558), "+17 235 437 558");
}

}  // namespace
}  // namespace plumbline::byte_text_test
