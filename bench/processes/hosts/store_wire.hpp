// Wire format between the two sides of a store.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// The server begins with this line, a letter (kGreets or kRefuses) and its nonce. The client sends nonce,
/// stream header and proof; the server kGreets, stream header and proof, or kRefuses. Sealed frames follow.
inline constexpr std::string_view kStoreGreeting = "plumbline store 2\n";
inline constexpr char kGreets = 'y';
inline constexpr char kRefuses = 'n';

/// Texts one after the other, each behind its length in four bytes: no two lists have the same bytes.
std::string pack_texts(const std::vector<std::string>& texts);
/// The list of such bytes; nothing when they are no list.
std::optional<std::vector<std::string>> unpack_texts(std::string_view bytes);

inline constexpr std::size_t kSealBytes = 17;  // that sealing adds to a message

/// A frame: a length in four bytes, lowest first, and that many bytes.
std::string store_frame(std::string_view bytes);

/// Takes the first whole frame from the front of `bytes`; nothing when it is not whole yet. `bad` is set for
/// a length that no frame has.
std::optional<std::string> take_store_frame(std::string& bytes, bool& bad);

/// A request or an answer: one letter, a name's length in two bytes, the name, a text.
struct StoreMessage {
  char what = 0;
  std::string name;
  std::string text;
};
/// Throws Error for a name or a text that is too long.
std::string encode(const StoreMessage& message);
std::optional<StoreMessage> decode_store_message(std::string_view bytes);

}  // namespace plumbline
