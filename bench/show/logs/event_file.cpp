#include "bench/show/logs/event_file.hpp"

#include <array>
#include <protozero/pbf_writer.hpp>

namespace plumbline {
namespace {

// Field numbers of TensorFlow's event.proto and summary.proto.
namespace event {
constexpr protozero::pbf_tag_type kWallTime = 1;
constexpr protozero::pbf_tag_type kStep = 2;
constexpr protozero::pbf_tag_type kFileVersion = 3;
constexpr protozero::pbf_tag_type kSummary = 5;
}  // namespace event
namespace summary {
constexpr protozero::pbf_tag_type kValue = 1;
constexpr protozero::pbf_tag_type kTag = 1;
constexpr protozero::pbf_tag_type kSimpleValue = 2;
}  // namespace summary

constexpr const char* kVersion = "brain.Event:2";

constexpr std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kReversedPolynomial = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReversedPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

void add_little_endian(std::string& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xFF);
}

/// A CRC of data that contain CRCs would be weak: TFRecord masks them.
void add_masked_crc(std::string& file, std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  add_little_endian(file, ((crc >> 15) | (crc << 17)) + 0xA282EAD8U, 4);
}

void add_record(std::string& file, const std::string& message) {
  std::string length;
  add_little_endian(length, message.size(), 8);
  file += length;
  add_masked_crc(file, length);
  file += message;
  add_masked_crc(file, message);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

std::string event_file(const std::vector<Scalar>& scalars) {
  std::string file;
  std::string message;
  protozero::pbf_writer first(message);
  first.add_double(event::kWallTime, scalars.empty() ? 0 : scalars.front().unix_s);
  first.add_string(event::kFileVersion, kVersion);
  add_record(file, message);
  for (const Scalar& scalar : scalars) {
    message.clear();
    protozero::pbf_writer writer(message);
    writer.add_double(event::kWallTime, scalar.unix_s);
    writer.add_int64(event::kStep, scalar.step);
    {
      protozero::pbf_writer list(writer, event::kSummary);
      protozero::pbf_writer value(list, summary::kValue);
      value.add_string(summary::kTag, scalar.tag);
      value.add_float(summary::kSimpleValue, static_cast<float>(scalar.value));
    }
    add_record(file, message);
  }
  return file;
}

}  // namespace plumbline
