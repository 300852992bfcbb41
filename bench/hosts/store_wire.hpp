// Bytes on a store's connection: frames of a length and a text, and the proof of the secret.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace plumbline {

/// A frame as it is sent: four bytes of length, lowest first, then the text.
std::string store_frame(std::string_view text);

/// Takes the first whole frame from the front of `bytes`; nothing when it is not whole yet. `bad` is set for
/// a length that no frame has.
std::optional<std::string> take_store_frame(std::string& bytes, bool& bad);

/// A request or an answer: one letter, a name's length in two bytes, the name, a text.
struct StoreMessage {
  char what = 0;
  std::string name;
  std::string text;
};
std::string encode(const StoreMessage& message);
std::optional<StoreMessage> decode_store_message(std::string_view frame);

/// 32 random hexadecimal digits. Throws Error when the system has none.
std::string random_token();

/// What only who knows the secret can say to both tokens; `side` tells the two directions apart.
std::string proof_of(const std::string& secret, std::string_view side, std::string_view server_token,
                     std::string_view client_token);

/// The same for both, in a time that does not depend on where they differ.
bool same_text(std::string_view one, std::string_view other);

}  // namespace plumbline
