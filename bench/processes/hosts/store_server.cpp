// The serving side of a store: one thread, all connections.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "bench/processes/hosts/store.hpp"
#include "bench/processes/hosts/store_listener.hpp"
#include "bench/processes/hosts/store_seal.hpp"
#include "bench/processes/hosts/store_wire.hpp"

namespace plumbline {
namespace {

using ServerClock = std::chrono::steady_clock;
constexpr std::chrono::seconds kToProve{3};  // for a connection to show that it knows the secret
constexpr int kLookAtUnprovenMs = 200;
constexpr int kAcceptedAtOnce = 256;
constexpr std::chrono::milliseconds kOutOfDescriptors{10};
constexpr std::size_t kClientProof = kNonceBytes + kStreamHeaderBytes + kProofBytes;
constexpr std::size_t kMostBytes = 256UL << 20;  // of all texts: a job's own are some kilobytes

/// An eighth of the descriptors: strangers leave the others to the job.
std::size_t unproven_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 4;
  return std::clamp<std::size_t>(limit.rlim_cur / 8, 4, 64);
}

/// True if both ends of a connection are this host's.
bool within_this_host(int socket, std::string& other) {
  std::array<sockaddr_in, 2> ends{};
  socklen_t size = sizeof ends[0];
  if (getsockname(socket, reinterpret_cast<sockaddr*>(ends.data()), &size) != 0) return false;
  size = sizeof ends[1];
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&ends[1]), &size) != 0) return false;
  std::array<std::string, 2> names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::array<char, INET_ADDRSTRLEN> text{};
    if (inet_ntop(AF_INET, &ends[i].sin_addr, text.data(), text.size()) == nullptr) return false;
    names[i] = text.data();
  }
  other = names[1];
  return names[0] == names[1] || (is_loopback(names[0]) && is_loopback(names[1]));
}

}  // namespace

class StoreServer::Impl {
 public:
  Impl(const StoreAddress& address, const std::string& secret, const std::string& listen)
      : has_secret_(!secret.empty()),
        key_(secret),
        places_(listen_places(address.host, known_addresses(address.host), listen, has_secret_)),
        listener_(address, places_.addresses) {
    wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    thread_ = std::thread([this] { serve(); });
  }
  ~Impl() {
    const std::uint64_t one = 1;
    if (write(wake_, &one, sizeof one) < 0) stop_ = true;
    thread_.join();
    for (const Connection& each : connections_) close(each.socket);
    close(wake_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  StoreAddress own_address() const { return {places_.own, listener_.port(), 1}; }
  std::string refused_host() const {
    const std::lock_guard<std::mutex> lock(refused_mutex_);
    return refused_host_;
  }

 private:
  struct Connection {
    int socket = -1;
    StoreMeeting meeting;
    std::optional<OpeningStream> in;  // once the other side has proved itself
    std::optional<SealingStream> out;
    ServerClock::time_point since = ServerClock::now();
    std::string received;
    std::string to_send;
    std::vector<std::pair<std::string, std::string>> at_end;
    bool over = false;
    bool proved() const { return in.has_value(); }
  };

  void serve() {
    while (!stop_) {
      std::vector<pollfd> watched = {{wake_, POLLIN, 0}};
      for (const int each : listener_.sockets()) watched.push_back({each, POLLIN, 0});
      for (const Connection& each : connections_) {
        const int events = POLLIN | (each.to_send.empty() ? 0 : POLLOUT);
        watched.push_back({each.socket, static_cast<short>(events), 0});
      }
      poll(watched.data(), watched.size(), unproven_ > 0 ? kLookAtUnprovenMs : 1000);
      if (watched[0].revents != 0) return;
      std::size_t at = 1 + listener_.sockets().size();
      const auto now = ServerClock::now();
      for (Connection& each : connections_) {
        if (watched[at++].revents != 0) attend(each);
        each.over = each.over || (!each.proved() && now - each.since > kToProve);
      }
      drop_ended();
      for (std::size_t i = 0; i < listener_.sockets().size(); ++i) {
        if (watched[1 + i].revents != 0) accept_all(listener_.sockets()[i]);
      }
      drop_ended();
    }
  }

  void accept_all(int listening) {
    for (int accepted = 0; accepted < kAcceptedAtOnce; ++accepted) {
      const int made = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (made < 0) {
        if (errno != EMFILE && errno != ENFILE) return;
        if (!drop_oldest_unproven()) std::this_thread::sleep_for(kOutOfDescriptors);
        return;
      }
      if (unproven_ >= unproven_limit_) drop_oldest_unproven();
      take(made);
    }
  }

  void take(int made) {
    const int on = 1;
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(made, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    Connection& fresh = connections_.emplace_back();
    ++unproven_;
    fresh.socket = made;
    fresh.meeting.server_nonce = fresh_nonce();
    std::string other;
    const bool welcome = has_secret_ || within_this_host(made, other);
    fresh.to_send =
        fmt::format("{}{}", kStoreGreeting, welcome ? kGreets : kRefuses) + fresh.meeting.server_nonce;
    flush(fresh);
    if (welcome) return;
    fresh.over = true;
    const std::lock_guard<std::mutex> lock(refused_mutex_);
    refused_host_ = other;
  }

  /// The earliest unproven connection makes room: holders of the secret prove it at once.
  bool drop_oldest_unproven() {
    const auto oldest = std::find_if(connections_.begin(), connections_.end(),
                                     [](const Connection& each) { return !each.proved(); });
    if (oldest == connections_.end()) return false;
    end(oldest);
    return true;
  }

  void attend(Connection& connection) {
    std::array<char, 16384> bytes{};
    const ssize_t got = recv(connection.socket, bytes.data(), bytes.size(), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) connection.over = true;
    if (got > 0) connection.received.append(bytes.data(), static_cast<std::size_t>(got));
    if (!connection.proved()) prove(connection);
    bool bad = false;
    while (!connection.over && connection.proved()) {
      const auto frame = take_store_frame(connection.received, bad);
      connection.over = connection.over || bad;
      if (!frame) break;
      const auto text = connection.in->open(*frame);
      const auto message = text ? decode_store_message(*text) : std::nullopt;
      connection.over = !message;
      if (message) obey(*message, connection);
    }
    flush(connection);
  }

  /// A client sends its proof and waits for the server's: longer data is invalid.
  void prove(Connection& connection) {
    connection.over = connection.over || connection.received.size() > kClientProof;
    if (connection.over || connection.received.size() < kClientProof) return;
    StoreMeeting& meeting = connection.meeting;
    meeting.client_nonce = connection.received.substr(0, kNonceBytes);
    meeting.client_header = connection.received.substr(kNonceBytes, kStreamHeaderBytes);
    const std::string proof = connection.received.substr(kNonceBytes + kStreamHeaderBytes);
    connection.received.clear();
    if (!same_bytes(proof, proof_of(key_, StoreSide::client, meeting))) {
      connection.to_send += kRefuses;
      flush(connection);
      connection.over = true;
      return;
    }
    connection.out.emplace(key_, StoreSide::server, meeting);
    meeting.server_header = connection.out->header();
    connection.in.emplace(key_, StoreSide::client, meeting);
    --unproven_;
    connection.to_send += kGreets + meeting.server_header + proof_of(key_, StoreSide::server, meeting);
  }

  static void answer(const StoreMessage& message, Connection& connection) {
    connection.to_send += store_frame(connection.out->seal(encode(message)));
  }

  void obey(const StoreMessage& message, Connection& connection) {
    if (message.what == 'S') {
      put(message.name, message.text);
      answer({'S', message.name, ""}, connection);
    } else if (message.what == 'F') {
      const auto found = texts_.find(message.name);
      const bool there = found != texts_.end();
      answer({there ? 'F' : 'N', message.name, there ? found->second : ""}, connection);
    } else if (message.what == 'E') {
      connection.at_end.emplace_back(message.name, message.text);
      answer({'E', message.name, ""}, connection);
    } else {
      connection.over = true;
    }
  }

  void put(const std::string& name, const std::string& text) {
    const auto known = texts_.find(name);
    const std::size_t before = known == texts_.end() ? 0 : known->first.size() + known->second.size();
    if (bytes_ - before + name.size() + text.size() > kMostBytes) return;
    bytes_ += name.size() + text.size() - before;
    texts_[name] = text;
  }

  static void flush(Connection& connection) {
    while (!connection.to_send.empty() && !connection.over) {
      const ssize_t sent =
          send(connection.socket, connection.to_send.data(), connection.to_send.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) return;
      if (sent <= 0) {
        connection.over = true;
        return;
      }
      connection.to_send.erase(0, static_cast<std::size_t>(sent));
    }
  }

  using Connections = std::list<Connection>;
  Connections::iterator end(Connections::iterator which) {
    close(which->socket);
    if (!which->proved()) --unproven_;
    for (const auto& [name, text] : which->at_end) put(name, text);
    return connections_.erase(which);
  }
  void drop_ended() {
    for (auto each = connections_.begin(); each != connections_.end();)
      each = each->over ? end(each) : std::next(each);
  }

  bool has_secret_;
  StoreKey key_;
  ListenPlaces places_;
  StoreListener listener_;
  int wake_ = -1;
  std::atomic<bool> stop_ = false;
  Connections connections_;
  std::size_t unproven_ = 0;
  const std::size_t unproven_limit_ = unproven_limit();
  std::map<std::string, std::string> texts_;
  std::size_t bytes_ = 0;
  mutable std::mutex refused_mutex_;
  std::string refused_host_;
  std::thread thread_;
};

StoreServer::StoreServer(const StoreAddress& address, const std::string& secret, const std::string& listen)
    : impl_(std::make_unique<Impl>(address, secret, listen)) {}

StoreServer::~StoreServer() = default;

StoreAddress StoreServer::own_address() const {
  return impl_->own_address();
}

std::string StoreServer::refused_host() const {
  return impl_->refused_host();
}

}  // namespace plumbline
