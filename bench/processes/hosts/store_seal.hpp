// Access to a store and protection of its messages: keys, proofs and sealed streams (libsodium).
//
// Both sides of a connection send a fresh nonce, then a proof: a keyed hash (BLAKE2b) of its side and of the
// whole dialogue before. Each direction is a stream of its own (XChaCha20-Poly1305) under a key of that
// connection. A message that was changed, repeated, left out, reordered or sent back does not open.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace plumbline {

inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kStreamHeaderBytes = 24;

/// The side that proves itself, or that a stream comes from.
enum class StoreSide { client, server };

/// From a secret of any length and bytes. Overwritten at its end.
class StoreKey {
 public:
  explicit StoreKey(std::string_view secret);
  StoreKey(const StoreKey&) = default;
  StoreKey& operator=(const StoreKey&) = default;
  ~StoreKey();
  const unsigned char* bytes() const { return bytes_.data(); }

 private:
  std::array<unsigned char, 32> bytes_{};
};

/// Data exchanged by both sides of a connection before one of them is trusted.
struct StoreMeeting {
  std::string server_nonce;
  std::string client_nonce;
  std::string client_header;  // of the stream that the client seals
  std::string server_header;  // empty in the client's proof: the server has not said it yet
};

/// `kNonceBytes` random bytes.
std::string fresh_nonce();

/// Proof that only a holder of the key can make, for one side of one meeting; `kProofBytes` long.
std::string proof_of(const StoreKey& key, StoreSide side, const StoreMeeting& meeting);

/// In a time that does not depend on where they differ.
bool same_bytes(std::string_view one, std::string_view other);

/// Seals the texts of one side of a connection, in their order.
class SealingStream {
 public:
  /// Needs the nonces of the meeting. The other side opens the stream with its header.
  SealingStream(const StoreKey& key, StoreSide from, const StoreMeeting& meeting);
  ~SealingStream();
  SealingStream(SealingStream&&) noexcept;
  SealingStream& operator=(SealingStream&&) noexcept;
  const std::string& header() const { return header_; }
  std::string seal(std::string_view text);

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::string header_;
};

/// Opens the other side's sealed messages, in the same order.
class OpeningStream {
 public:
  /// Needs the nonces of the meeting and that side's header.
  OpeningStream(const StoreKey& key, StoreSide from, const StoreMeeting& meeting);
  ~OpeningStream();
  OpeningStream(OpeningStream&&) noexcept;
  OpeningStream& operator=(OpeningStream&&) noexcept;
  /// Nothing when it is not the next text that the other side has sealed.
  std::optional<std::string> open(std::string_view sealed);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plumbline
