// Frames and proofs of a store.
#include "bench/hosts/store_wire.hpp"

#include <crypt.h>
#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "bench/hosts/store.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kHeadBytes = 3;
constexpr std::size_t kLongestName = 1024;

std::size_t byte_at(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

}  // namespace

std::string store_frame(std::string_view text) {
  std::string frame;
  for (std::size_t i = 0; i < kLengthBytes; ++i) frame += static_cast<char>((text.size() >> (8 * i)) & 0xFF);
  frame += text;
  return frame;
}

std::optional<std::string> take_store_frame(std::string& bytes, bool& bad) {
  if (bytes.size() < kLengthBytes) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= byte_at(bytes, i) << (8 * i);
  bad = length > kLongestStoreText + kLongestName + kHeadBytes;
  if (bad || bytes.size() < kLengthBytes + length) return std::nullopt;
  std::string text = bytes.substr(kLengthBytes, length);
  bytes.erase(0, kLengthBytes + length);
  return text;
}

std::string encode(const StoreMessage& message) {
  if (message.name.size() > kLongestName || message.text.size() > kLongestStoreText) {
    throw Error(fmt::format("store: {} bytes for one text, expected at most {}", message.text.size(),
                            kLongestStoreText));
  }
  std::string frame(1, message.what);
  frame += static_cast<char>(message.name.size() & 0xFF);
  frame += static_cast<char>(message.name.size() >> 8);
  return frame + message.name + message.text;
}

std::optional<StoreMessage> decode_store_message(std::string_view frame) {
  if (frame.size() < kHeadBytes) return std::nullopt;
  const std::size_t name = byte_at(frame, 1) | byte_at(frame, 2) << 8;
  if (name > kLongestName || frame.size() < kHeadBytes + name) return std::nullopt;
  return StoreMessage{frame.front(), std::string(frame.substr(kHeadBytes, name)),
                      std::string(frame.substr(kHeadBytes + name))};
}

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw Error("no random numbers from the system (getrandom)");
  }
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

std::string proof_of(const std::string& secret, std::string_view side, std::string_view server_token,
                     std::string_view client_token) {
  const std::string phrase = fmt::format("{}:{}:{}:{}", side, server_token, client_token, secret);
  const auto work = std::make_unique<crypt_data>();
  const char* made = crypt_r(phrase.c_str(), "$5$rounds=1000$plumbline", work.get());
  if (made == nullptr || *made == '*')
    throw Error("crypt(3) has no SHA-256 here: no proof of the shared secret");
  return made;
}

bool same_text(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]));
  }
  return difference == 0;
}

}  // namespace plumbline
