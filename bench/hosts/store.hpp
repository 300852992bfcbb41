// A small store of texts by name over TCP, by which the processes of a job find each other without MPI.
//
// Rank 0 serves, everybody connects to its address. Both sides prove that they know the same secret before
// anything else is said: crypt(3)'s SHA-256 of the secret and of a number from each side. What follows is
// neither hidden nor protected: the network is the cluster's own.
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

inline constexpr std::size_t kLongestStoreText = std::size_t{1} << 20;

struct StoreAddress {
  std::string host;  // name or number
  int first_port = 0;
  int ports = 8;  // from the first on, the first that is free: somebody else may have it
};

/// Serves as long as it lives, in a thread of its own.
class StoreServer {
 public:
  /// Throws Error when no port is free.
  StoreServer(const StoreAddress& address, const std::string& secret);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  int port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// One connection; for one thread at a time. Whatever throws throws Error.
class StoreClient {
 public:
  /// Tries until somebody answers who knows the secret, at most `limit`.
  StoreClient(const StoreAddress& address, const std::string& secret, Seconds limit);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  void set(const std::string& name, const std::string& text);
  /// What was set last, if anything.
  std::optional<std::string> find(const std::string& name);
  /// Waits until it is set, at most `limit`.
  std::string wait_for(const std::string& name, Seconds limit);
  /// The server sets this when the connection ends, however it does.
  void set_at_end(const std::string& name, const std::string& text);
  /// This side's address, as the server sees it.
  std::string own_address() const;

 private:
  std::string ask(char what, const std::string& name, const std::string& text);
  int socket_ = -1;
};

}  // namespace plumbline
