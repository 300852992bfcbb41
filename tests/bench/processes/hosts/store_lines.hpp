// Raw connections to and of a store, for attackers: both sides' bytes.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bench/processes/hosts/store.hpp"
#include "bench/processes/hosts/store_seal.hpp"
#include "bench/processes/hosts/store_wire.hpp"

namespace plumbline {

inline constexpr std::size_t kGreetingBytes = kStoreGreeting.size() + 1 + kNonceBytes;
inline constexpr std::size_t kClientProofBytes = kNonceBytes + kStreamHeaderBytes + kProofBytes;
inline constexpr std::size_t kServerProofBytes = 1 + kStreamHeaderBytes + kProofBytes;

/// A connected socket of this host; -1 once it is closed.
class Line {
 public:
  explicit Line(int socket) : socket_(socket) {}
  explicit Line(const StoreAddress& address);
  ~Line() { end(); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  int socket() const { return socket_; }
  void say(const std::string& bytes) const;
  /// Fewer when the other side ends it or is silent for `limit_ms`.
  std::string hear(std::size_t bytes, int limit_ms = 2000) const;
  /// True if the other side ends it within `limit_ms`; its output until then is discarded.
  bool ended_within(int limit_ms) const;
  void end();

 private:
  int socket_ = -1;
};

/// Listens at a port of 127.0.0.1 that the system chooses, and does the same with each that connects.
class Listening {
 public:
  explicit Listening(std::function<void(Line& line)> does);
  ~Listening();
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  StoreAddress address() const { return {"127.0.0.1", port_, 1}; }

 private:
  int socket_ = -1;
  int port_ = 0;
  std::thread thread_;
};

/// The client's part of a meeting that the server opened with `greeting`, with this secret.
struct Claim {
  StoreMeeting meeting;
  std::string said;
};
Claim claim_with(const std::string& secret, const std::string& greeting, StoreSide side = StoreSide::client);

/// A process between a client and the server. `change` gets every unit (greeting, proofs, frames with their
/// lengths, numbered from 0 in each direction) and decides what is passed on to whom.
struct Passed {
  std::string to_server;
  std::string to_client;
};
using Change = std::function<Passed(bool from_client, int number, const std::string& unit)>;
/// Serves one connection after the other, each to the end.
void stand_between(Line& client, const StoreAddress& server, const Change& change);

}  // namespace plumbline
