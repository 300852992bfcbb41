// Addresses of this host, and sockets that listen at some of them.
#include "bench/processes/hosts/store_listener.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr const char* kEverywhere = "0.0.0.0";
constexpr int kWaiting = 1024;      // connections that the system keeps until they are accepted
constexpr int kTriesForAPort = 20;  // when the system chooses one that is free at the first address only

std::string number_of(const sockaddr* place) {
  std::array<char, INET_ADDRSTRLEN> text{};
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(place);
  return inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size()) == nullptr ? "" : text.data();
}

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

/// Asks which interface a packet to a far address would leave by; none is sent.
std::string outward_address() {
  const int made = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (made < 0) return "";
  sockaddr_in far{};
  far.sin_family = AF_INET;
  far.sin_port = htons(9);
  inet_pton(AF_INET, "192.0.2.1", &far.sin_addr);  // RFC 5737: nobody's
  sockaddr_in here{};
  socklen_t size = sizeof here;
  const bool known = connect(made, reinterpret_cast<sockaddr*>(&far), sizeof far) == 0 &&
                     getsockname(made, reinterpret_cast<sockaddr*>(&here), &size) == 0;
  close(made);
  return known ? number_of(reinterpret_cast<sockaddr*>(&here)) : "";
}

}  // namespace

bool is_loopback(const std::string& address) {
  return address.starts_with("127.");
}

KnownAddresses known_addresses(const std::string& name) {
  KnownAddresses known;
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &wanted, &found) == 0) {
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next)
      known.of_name.push_back(number_of(each->ai_addr));
    freeaddrinfo(found);
  }
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) == 0) {
    for (const ifaddrs* each = interfaces; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET)
        known.own.push_back(number_of(each->ifa_addr));
    }
    freeifaddrs(interfaces);
  }
  known.outward = outward_address();
  if (known.outward.empty()) {
    const auto other = std::find_if(known.own.begin(), known.own.end(),
                                    [](const std::string& each) { return !is_loopback(each); });
    if (other != known.own.end()) known.outward = *other;
  }
  return known;
}

ListenPlaces listen_places(const std::string& name, const KnownAddresses& known, const std::string& asked,
                           bool has_secret) {
  if (!asked.empty() && asked != kEverywhere && !contains(known.own, asked)) {
    throw InputError(
        fmt::format("{}: found \"{}\", expected an address of this host ({}) or {}; set it to one",
                    kListenVariable, printable(asked), fmt::join(known.own, ", "), kEverywhere));
  }
  ListenPlaces places;
  bool reached = false;  // from other hosts
  for (const std::string& each : known.of_name) {
    if (is_loopback(each) || contains(known.own, each)) places.addresses.push_back(each);
    reached = reached || (contains(known.own, each) && !is_loopback(each));
  }
  in_addr ignored{};
  const bool no_name = name == "localhost" || inet_pton(AF_INET, name.c_str(), &ignored) == 1;
  const bool one_host = !places.addresses.empty() && (no_name || !has_secret);
  std::string other = asked;
  if (asked.empty() && !reached && !one_host && !known.of_name.empty()) other = known.outward;
  if (!other.empty() && !contains(places.addresses, other)) places.addresses.push_back(other);
  if (places.addresses.empty()) {
    throw InputError(fmt::format(
        "rank 0's address: found \"{}\", expected a name or an IPv4 address of this host ({}); set "
        "MASTER_ADDR, or {}",
        printable(name), fmt::join(known.own, ", "), kListenVariable));
  }
  places.own = places.addresses.front() == kEverywhere ? "127.0.0.1" : places.addresses.front();
  if (asked == kEverywhere) places.addresses = {asked};
  return places;
}

StoreListener::StoreListener(const StoreAddress& address, const std::vector<std::string>& places) {
  bool go_on = true;
  for (int port = address.first_port; port < address.first_port + address.ports && go_on; ++port) {
    for (int tries = port == 0 ? kTriesForAPort : 1; tries > 0; --tries) {
      if (listen_at(port, places)) return;
    }
    go_on = errno == EADDRINUSE || errno == EACCES;
  }
  throw Error(
      fmt::format("no port from {} to {} can be listened at ({}): {}; set MASTER_PORT to one that is free",
                  address.first_port, address.first_port + address.ports - 1, fmt::join(places, ", "),
                  std::strerror(errno)));
}

StoreListener::~StoreListener() {
  close_all();
}

void StoreListener::close_all() {
  for (const int each : sockets_) close(each);
  sockets_.clear();
}

bool StoreListener::listen_at(int port, const std::vector<std::string>& places) {
  port_ = port;
  for (const std::string& each : places) {
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made >= 0) sockets_.push_back(made);
    const int on = 1;
    if (made >= 0) setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(static_cast<std::uint16_t>(port_));
    inet_pton(AF_INET, each.c_str(), &place.sin_addr);
    socklen_t size = sizeof place;
    if (made < 0 || bind(made, reinterpret_cast<sockaddr*>(&place), sizeof place) != 0 ||
        listen(made, kWaiting) != 0 || getsockname(made, reinterpret_cast<sockaddr*>(&place), &size) != 0) {
      const int error = errno;
      close_all();
      errno = error;
      return false;
    }
    port_ = ntohs(place.sin_port);
  }
  return true;
}

}  // namespace plumbline
