// Addresses that rank 0's store listens at: the one that the hosts share, not every interface.
#pragma once

#include <string>
#include <vector>

#include "bench/processes/hosts/store.hpp"

namespace plumbline {

/// IPv4 addresses as numbers, for the choice below.
struct KnownAddresses {
  std::vector<std::string> of_name;  // of rank 0's name, as this host resolves it
  std::vector<std::string> own;      // of this host's interfaces
  std::string outward;               // of the interface with the default route; empty without one
};

KnownAddresses known_addresses(const std::string& name);

struct ListenPlaces {
  std::vector<std::string> addresses;
  std::string own;  // where processes of this host connect to
};

/// The addresses of this host that `name` means. A host's own name may mean its loopback interface there, and
/// something else on other hosts. With a secret the outward address is therefore added, or in its place
/// `asked` (kListenVariable); "0.0.0.0" is every interface. Throws InputError when there is none.
ListenPlaces listen_places(const std::string& name, const KnownAddresses& known, const std::string& asked,
                           bool has_secret);

bool is_loopback(const std::string& address);

/// Sockets that listen at the same port of several addresses.
class StoreListener {
 public:
  /// Takes the first port of `address` that is free at all of `places`. Throws Error when there is none.
  StoreListener(const StoreAddress& address, const std::vector<std::string>& places);
  ~StoreListener();
  StoreListener(const StoreListener&) = delete;
  StoreListener& operator=(const StoreListener&) = delete;
  const std::vector<int>& sockets() const { return sockets_; }
  int port() const { return port_; }

 private:
  bool listen_at(int port, const std::vector<std::string>& places);
  void close_all();

  std::vector<int> sockets_;
  int port_ = 0;
};

}  // namespace plumbline
