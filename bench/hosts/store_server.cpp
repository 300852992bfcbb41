// The serving side of a store: one thread, all connections.
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <map>
#include <thread>
#include <utility>

#include "bench/hosts/store.hpp"
#include "bench/hosts/store_wire.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr std::chrono::seconds kToProve{10};  // for a connection to show that it knows the secret
constexpr std::size_t kLongestProof = 1024;   // bytes of a connection that has not proved anything
constexpr std::size_t kMostConnections = 65'536;
constexpr std::size_t kMostBytes = 256UL << 20;  // of all texts: a job's own are some kilobytes

}  // namespace

class StoreServer::Impl {
 public:
  Impl(const StoreAddress& address, std::string secret) : secret_(std::move(secret)) {
    // Of all interfaces: rank 0's own name may stand for the loopback interface on its own host.
    for (int port = address.first_port; port < address.first_port + address.ports && listener_ < 0; ++port) {
      if (!listen_at(port) && errno != EADDRINUSE && errno != EACCES) break;
    }
    if (listener_ < 0) {
      throw Error(
          fmt::format("no port from {} to {} can be listened at: {}; set MASTER_PORT to one that is free",
                      address.first_port, address.first_port + address.ports - 1, std::strerror(errno)));
    }
    wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    thread_ = std::thread([this] { serve(); });
  }
  ~Impl() {
    const std::uint64_t one = 1;
    if (write(wake_, &one, sizeof one) < 0) stop_ = true;
    thread_.join();
    for (const Connection& each : connections_) close(each.socket);
    close(listener_);
    close(wake_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  int port() const { return port_; }

 private:
  struct Connection {
    int socket = -1;
    std::string token;
    bool proved = false;
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
    std::string received;
    std::string to_send;
    std::vector<std::pair<std::string, std::string>> at_end;
    bool over = false;
  };

  bool listen_at(int port) {
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0) return false;
    const int on = 1;
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(static_cast<std::uint16_t>(port));
    if (bind(made, reinterpret_cast<sockaddr*>(&place), sizeof place) != 0 || listen(made, 1024) != 0) {
      const int error = errno;
      close(made);
      errno = error;
      return false;
    }
    socklen_t size = sizeof place;
    getsockname(made, reinterpret_cast<sockaddr*>(&place), &size);
    listener_ = made;
    port_ = ntohs(place.sin_port);
    return true;
  }

  void serve() {
    while (!stop_) {
      std::vector<pollfd> watched = {{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
      for (const Connection& each : connections_) {
        const int events = POLLIN | (each.to_send.empty() ? 0 : POLLOUT);
        watched.push_back({each.socket, static_cast<short>(events), 0});
      }
      poll(watched.data(), watched.size(), 1000);
      if (watched[0].revents != 0) return;
      std::size_t at = 2;
      for (Connection& each : connections_) {
        if (watched[at++].revents != 0) attend(each);
        const bool late = !each.proved && std::chrono::steady_clock::now() - each.since > kToProve;
        each.over = each.over || late;
      }
      if (watched[1].revents != 0) accept_one();
      drop_ended();
    }
  }

  void accept_one() {
    const int made = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (made < 0) return;
    if (connections_.size() > kMostConnections) {
      close(made);
      return;
    }
    const int on = 1;
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(made, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    Connection& fresh = connections_.emplace_back();
    fresh.socket = made;
    fresh.token = random_token();
    fresh.to_send = store_frame(encode({'P', "plumbline store 1", fresh.token}));
    flush(fresh);
  }

  void attend(Connection& connection) {
    std::array<char, 16384> bytes{};
    const ssize_t got = recv(connection.socket, bytes.data(), bytes.size(), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) connection.over = true;
    if (got > 0) connection.received.append(bytes.data(), static_cast<std::size_t>(got));
    if (!connection.proved && connection.received.size() > kLongestProof) connection.over = true;
    bool bad = false;
    while (!connection.over) {
      const auto frame = take_store_frame(connection.received, bad);
      connection.over = connection.over || bad;
      if (!frame) break;
      const auto message = decode_store_message(*frame);
      if (!message) {
        connection.over = true;
      } else if (connection.proved) {
        obey(*message, connection);
      } else {
        prove(*message, connection);
      }
    }
    flush(connection);
  }

  /// The client's token is the name, its proof the text.
  void prove(const StoreMessage& message, Connection& connection) {
    const bool good = message.what == 'P' && message.name.size() == connection.token.size() &&
                      same_text(message.text, proof_of(secret_, "client", connection.token, message.name));
    connection.over = !good;
    if (!good) return;
    connection.proved = true;
    connection.to_send +=
        store_frame(encode({'P', "", proof_of(secret_, "server", connection.token, message.name)}));
  }

  void obey(const StoreMessage& message, Connection& connection) {
    if (message.what == 'S') {
      put(message.name, message.text);
      connection.to_send += store_frame(encode({'S', message.name, ""}));
    } else if (message.what == 'F') {
      const auto found = texts_.find(message.name);
      const bool there = found != texts_.end();
      connection.to_send +=
          store_frame(encode({there ? 'F' : 'N', message.name, there ? found->second : ""}));
    } else if (message.what == 'E') {
      connection.at_end.emplace_back(message.name, message.text);
      connection.to_send += store_frame(encode({'E', message.name, ""}));
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

  void drop_ended() {
    for (auto each = connections_.begin(); each != connections_.end();) {
      if (!each->over) {
        ++each;
        continue;
      }
      close(each->socket);
      for (const auto& [name, text] : each->at_end) put(name, text);
      each = connections_.erase(each);
    }
  }

  std::string secret_;
  int listener_ = -1;
  int port_ = 0;
  int wake_ = -1;
  std::atomic<bool> stop_ = false;
  std::list<Connection> connections_;
  std::map<std::string, std::string> texts_;
  std::size_t bytes_ = 0;
  std::thread thread_;
};

StoreServer::StoreServer(const StoreAddress& address, const std::string& secret)
    : impl_(std::make_unique<Impl>(address, secret)) {}

StoreServer::~StoreServer() = default;

int StoreServer::port() const {
  return impl_->port();
}

}  // namespace plumbline
