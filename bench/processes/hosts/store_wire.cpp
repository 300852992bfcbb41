// Lists, frames and messages of a store.
#include "bench/processes/hosts/store_wire.hpp"

#include <fmt/format.h>

#include "bench/processes/hosts/store.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kHeadBytes = 3;
constexpr std::size_t kLongestName = 1024;
constexpr std::size_t kLongestFrame = kLongestStoreText + kLongestName + kHeadBytes + kSealBytes;

std::size_t byte_at(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

/// Length at the begin of `bytes`.
std::size_t length_in(std::string_view bytes) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= byte_at(bytes, i) << (8 * i);
  return length;
}

}  // namespace

std::string store_frame(std::string_view bytes) {
  std::string frame;
  for (std::size_t i = 0; i < kLengthBytes; ++i) frame += static_cast<char>((bytes.size() >> (8 * i)) & 0xFF);
  frame += bytes;
  return frame;
}

std::string pack_texts(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) bytes += store_frame(text);
  return bytes;
}

std::optional<std::vector<std::string>> unpack_texts(std::string_view bytes) {
  std::vector<std::string> texts;
  while (!bytes.empty()) {
    if (bytes.size() < kLengthBytes) return std::nullopt;
    const std::size_t length = length_in(bytes);
    bytes.remove_prefix(kLengthBytes);
    if (bytes.size() < length) return std::nullopt;
    texts.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  return texts;
}

std::optional<std::string> take_store_frame(std::string& bytes, bool& bad) {
  if (bytes.size() < kLengthBytes) return std::nullopt;
  const std::size_t length = length_in(bytes);
  bad = length > kLongestFrame;
  if (bad || bytes.size() < kLengthBytes + length) return std::nullopt;
  std::string frame = bytes.substr(kLengthBytes, length);
  bytes.erase(0, kLengthBytes + length);
  return frame;
}

std::string encode(const StoreMessage& message) {
  if (message.name.size() > kLongestName || message.text.size() > kLongestStoreText) {
    throw Error(fmt::format("store: {} bytes for one text, expected at most {}", message.text.size(),
                            kLongestStoreText));
  }
  std::string bytes(1, message.what);
  bytes += static_cast<char>(message.name.size() & 0xFF);
  bytes += static_cast<char>(message.name.size() >> 8);
  return bytes + message.name + message.text;
}

std::optional<StoreMessage> decode_store_message(std::string_view bytes) {
  if (bytes.size() < kHeadBytes) return std::nullopt;
  const std::size_t name = byte_at(bytes, 1) | byte_at(bytes, 2) << 8;
  if (name > kLongestName || bytes.size() < kHeadBytes + name) return std::nullopt;
  if (bytes.size() - kHeadBytes - name > kLongestStoreText) return std::nullopt;
  return StoreMessage{bytes.front(), std::string(bytes.substr(kHeadBytes, name)),
                      std::string(bytes.substr(kHeadBytes + name))};
}

}  // namespace plumbline
