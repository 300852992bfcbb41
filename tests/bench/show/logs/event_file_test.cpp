// TensorBoard's event files, byte by byte; tests/bench/show/logs/real_readers.py has TensorBoard read them.
#include "bench/show/logs/event_file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <protozero/pbf_reader.hpp>

namespace plumbline::event_file_test {
namespace {

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i)
    value = (value << 8) | static_cast<unsigned char>(bytes[i - 1]);
  return value;
}

std::uint32_t masked(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

/// Messages of the records, whose lengths and checksums are right.
std::vector<std::string> messages_of(std::string_view file) {
  std::vector<std::string> messages;
  while (file.size() >= 16) {
    const std::uint64_t length = little_endian(file.substr(0, 8));
    EXPECT_EQ(little_endian(file.substr(8, 4)), masked(file.substr(0, 8)));
    if (file.size() < 16 + length) break;
    messages.emplace_back(file.substr(12, length));
    EXPECT_EQ(little_endian(file.substr(12 + length, 4)), masked(messages.back()));
    file.remove_prefix(16 + length);
  }
  EXPECT_TRUE(file.empty());
  return messages;
}

TEST(EventFile, HasCastagnolisChecksum) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);            // the check value of CRC-32C
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
}

TEST(EventFile, HoldsTheVersionAndEveryScalar) {
  const std::vector<Scalar> scalars = {{"loss", 1, 4.5, 1000.25}, {"time/step_s", 300, 1e-3, 1001.5}};
  const std::vector<std::string> messages = messages_of(event_file(scalars));
  ASSERT_EQ(messages.size(), 3U);
  protozero::pbf_reader version(messages[0]);
  ASSERT_TRUE(version.next(3));
  EXPECT_EQ(version.get_string(), "brain.Event:2");
  for (std::size_t i = 0; i < scalars.size(); ++i) {
    protozero::pbf_reader event(messages[i + 1]);
    int seen = 0;
    while (event.next()) {
      if (event.tag() == 1) {
        EXPECT_EQ(event.get_double(), scalars[i].unix_s);
      } else if (event.tag() == 2) {
        EXPECT_EQ(event.get_int64(), scalars[i].step);
      } else {
        ASSERT_EQ(event.tag(), 5U);
        protozero::pbf_reader summary = event.get_message();
        ASSERT_TRUE(summary.next(1));
        protozero::pbf_reader value = summary.get_message();
        ASSERT_TRUE(value.next(1));
        EXPECT_EQ(value.get_string(), scalars[i].tag);
        ASSERT_TRUE(value.next(2));
        EXPECT_EQ(value.get_float(), static_cast<float>(scalars[i].value));
      }
      ++seen;
    }
    EXPECT_EQ(seen, 3);
  }
}

TEST(EventFile, OfNothingHasTheVersionOnly) {
  EXPECT_EQ(messages_of(event_file({})).size(), 1U);
}

}  // namespace
}  // namespace plumbline::event_file_test
