// A small store of texts by name over TCP, by which the processes of a job find each other without MPI.
//
// Rank 0 serves, all connect to its address. Both sides first prove that they know the same secret, and all
// further messages are sealed (store_seal.hpp); bench/clusters.md describes the protection.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.hpp"

namespace plumbline {

/// Environment variable with the secret that all processes of a job share.
inline constexpr const char* kSecretVariable = "PLUMBLINE_SECRET";
/// Environment variable with an address of rank 0's host to listen at, besides those that its name means
/// there.
inline constexpr const char* kListenVariable = "PLUMBLINE_LISTEN";

inline constexpr std::size_t kLongestStoreText = std::size_t{1} << 20;

struct StoreAddress {
  std::string host;  // name or number
  int first_port = 0;
  int ports = 8;  // from the first on, the first that is free: another process may have it
};

/// Serves as long as it lives, in a thread of its own. Without a secret only processes of the same host.
class StoreServer {
 public:
  /// Listens at the places of listen_places (store_listener.hpp); `listen` is the value of kListenVariable.
  /// Throws InputError when there is none, Error when no port is free.
  StoreServer(const StoreAddress& address, const std::string& secret, const std::string& listen = "");
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  /// For processes of this host.
  StoreAddress own_address() const;
  /// The last host that was refused because there is no secret; empty when none was.
  std::string refused_host() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

class StoreChannel;

/// One connection; for one thread at a time. Whatever throws throws Error.
class StoreClient {
 public:
  /// Tries until a holder of the secret answers, at most `limit`. Throws InputError when rank 0 is on another
  /// host and has no secret.
  StoreClient(const StoreAddress& address, const std::string& secret, Seconds limit);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  void set(const std::string& name, const std::string& text);
  /// The last value set, if any.
  std::optional<std::string> find(const std::string& name);
  /// Waits until it is set, at most `limit`.
  std::string wait_for(const std::string& name, Seconds limit);
  /// The server sets this when the connection ends, however it does.
  void set_at_end(const std::string& name, const std::string& text);
  /// This side's address, as the server sees it.
  std::string own_address() const;

 private:
  std::string ask(char what, const std::string& name, const std::string& text);
  std::unique_ptr<StoreChannel> channel_;
};

}  // namespace plumbline
