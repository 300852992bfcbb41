// Keys, proofs and streams from libsodium's parts.
#include "bench/processes/hosts/store_seal.hpp"

#include <sodium.h>

#include "bench/processes/hosts/store_wire.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kProtocol = "plumbline store 2";

static_assert(kStreamHeaderBytes == crypto_secretstream_xchacha20poly1305_HEADERBYTES);
static_assert(kSealBytes == crypto_secretstream_xchacha20poly1305_ABYTES);
static_assert(kProofBytes >= crypto_generichash_BYTES_MIN && kProofBytes <= crypto_generichash_BYTES_MAX);
static_assert(crypto_secretstream_xchacha20poly1305_KEYBYTES == 32);

using HashBytes = std::array<unsigned char, 32>;

const unsigned char* unsigned_bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

void require_sodium() {
  static const bool usable = sodium_init() >= 0;
  if (!usable) throw Error("no random numbers from the system (libsodium cannot be initialised)");
}

HashBytes keyed_hash(const StoreKey& key, const std::vector<std::string>& said) {
  HashBytes hash{};
  const std::string bytes = pack_texts(said);
  crypto_generichash(hash.data(), hash.size(), unsigned_bytes(bytes), bytes.size(), key.bytes(), 32);
  return hash;
}

std::string name_of_side(StoreSide side) {
  return side == StoreSide::client ? "client" : "server";
}

HashBytes stream_key(const StoreKey& key, StoreSide from, const StoreMeeting& meeting) {
  return keyed_hash(key, {std::string(kProtocol), "stream from", name_of_side(from), meeting.server_nonce,
                          meeting.client_nonce});
}

}  // namespace

StoreKey::StoreKey(std::string_view secret) {
  require_sodium();
  crypto_generichash_state state{};
  crypto_generichash_init(&state, nullptr, 0, bytes_.size());
  // The name in front: the same secret of another protocol has another key.
  const std::string front = pack_texts({std::string(kProtocol), "key"});
  crypto_generichash_update(&state, unsigned_bytes(front), front.size());
  crypto_generichash_update(&state, unsigned_bytes(secret), secret.size());
  crypto_generichash_final(&state, bytes_.data(), bytes_.size());
  sodium_memzero(&state, sizeof state);
}

StoreKey::~StoreKey() {
  sodium_memzero(bytes_.data(), bytes_.size());
}

std::string fresh_nonce() {
  require_sodium();
  std::string nonce(kNonceBytes, '\0');
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::string proof_of(const StoreKey& key, StoreSide side, const StoreMeeting& meeting) {
  const HashBytes hash =
      keyed_hash(key, {std::string(kProtocol), "proof of", name_of_side(side), meeting.server_nonce,
                       meeting.client_nonce, meeting.client_header, meeting.server_header});
  return {reinterpret_cast<const char*>(hash.data()), hash.size()};
}

bool same_bytes(std::string_view one, std::string_view other) {
  return one.size() == other.size() && sodium_memcmp(one.data(), other.data(), one.size()) == 0;
}

struct SealingStream::State {
  crypto_secretstream_xchacha20poly1305_state of{};
  ~State() { sodium_memzero(&of, sizeof of); }
};

SealingStream::SealingStream(const StoreKey& key, StoreSide from, const StoreMeeting& meeting)
    : state_(std::make_unique<State>()), header_(kStreamHeaderBytes, '\0') {
  HashBytes session = stream_key(key, from, meeting);
  crypto_secretstream_xchacha20poly1305_init_push(
      &state_->of, reinterpret_cast<unsigned char*>(header_.data()), session.data());
  sodium_memzero(session.data(), session.size());
}

SealingStream::~SealingStream() = default;
SealingStream::SealingStream(SealingStream&&) noexcept = default;
SealingStream& SealingStream::operator=(SealingStream&&) noexcept = default;

std::string SealingStream::seal(std::string_view text) {
  std::string sealed(text.size() + kSealBytes, '\0');
  crypto_secretstream_xchacha20poly1305_push(&state_->of, reinterpret_cast<unsigned char*>(sealed.data()),
                                             nullptr, unsigned_bytes(text), text.size(), nullptr, 0,
                                             crypto_secretstream_xchacha20poly1305_TAG_MESSAGE);
  return sealed;
}

struct OpeningStream::State {
  crypto_secretstream_xchacha20poly1305_state of{};
  ~State() { sodium_memzero(&of, sizeof of); }
};

OpeningStream::OpeningStream(const StoreKey& key, StoreSide from, const StoreMeeting& meeting)
    : state_(std::make_unique<State>()) {
  const std::string& header = from == StoreSide::client ? meeting.client_header : meeting.server_header;
  if (header.size() != kStreamHeaderBytes) throw Error("store: a stream without a header");
  HashBytes session = stream_key(key, from, meeting);
  crypto_secretstream_xchacha20poly1305_init_pull(&state_->of, unsigned_bytes(header), session.data());
  sodium_memzero(session.data(), session.size());
}

OpeningStream::~OpeningStream() = default;
OpeningStream::OpeningStream(OpeningStream&&) noexcept = default;
OpeningStream& OpeningStream::operator=(OpeningStream&&) noexcept = default;

std::optional<std::string> OpeningStream::open(std::string_view sealed) {
  if (sealed.size() < kSealBytes) return std::nullopt;
  std::string text(sealed.size() - kSealBytes, '\0');
  unsigned char tag = 0;
  const int bad = crypto_secretstream_xchacha20poly1305_pull(
      &state_->of, reinterpret_cast<unsigned char*>(text.data()), nullptr, &tag, unsigned_bytes(sealed),
      sealed.size(), nullptr, 0);
  if (bad != 0 || tag != crypto_secretstream_xchacha20poly1305_TAG_MESSAGE) return std::nullopt;
  return text;
}

}  // namespace plumbline
