// The asking side of a store.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "bench/hosts/store.hpp"
#include "bench/hosts/store_wire.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

using StoreClock = std::chrono::steady_clock;
constexpr int kToAnswerMs = 1000;  // until somebody at a port has said who it is
constexpr int kAnswerMs = 30'000;  // until the server has done what it is asked for
constexpr std::chrono::milliseconds kLook{50};
constexpr int kMostRefusals = 20;

StoreClock::time_point deadline_in(Seconds limit) {
  return StoreClock::now() +
         std::chrono::duration_cast<StoreClock::duration>(std::chrono::duration<double>(limit.value));
}

void send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) throw Error(fmt::format("store: rank 0 cannot be reached: {}", std::strerror(errno)));
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

/// The next message; waits `limit_ms`.
StoreMessage receive(int socket, int limit_ms) {
  std::string bytes;
  const auto deadline = StoreClock::now() + std::chrono::milliseconds(limit_ms);
  for (;;) {
    bool bad = false;
    if (const auto frame = take_store_frame(bytes, bad)) {
      const auto message = decode_store_message(*frame);
      if (message) return *message;
      bad = true;
    }
    if (bad) throw Error("store: an answer that is none");
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - StoreClock::now()).count();
    pollfd watched{socket, POLLIN, 0};
    if (left <= 0 || poll(&watched, 1, static_cast<int>(left)) == 0) throw Error("store: no answer");
    std::array<char, 16384> part{};
    const ssize_t got = recv(socket, part.data(), part.size(), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) throw Error("store: rank 0 has gone");
    bytes.append(part.data(), static_cast<std::size_t>(got));
  }
}

/// A socket that is connected within `kToAnswerMs`, or -1.
int connect_to(const std::string& host, int port) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) {
    errno = EADDRNOTAVAIL;
    return -1;
  }
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bool good = made >= 0;
  if (good && connect(made, found->ai_addr, found->ai_addrlen) != 0) {
    pollfd watched{made, POLLOUT, 0};
    int error = errno;
    socklen_t size = sizeof error;
    if (error == EINPROGRESS && poll(&watched, 1, kToAnswerMs) == 1)
      getsockopt(made, SOL_SOCKET, SO_ERROR, &error, &size);
    good = error == 0;
    errno = error;
  }
  freeaddrinfo(found);
  if (good) {
    const int on = 1;
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(made, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    return made;
  }
  const int error = errno;
  if (made >= 0) close(made);
  errno = error;
  return -1;
}

enum class Greeting { done, no_store, wrong_secret };

Greeting greet(int socket, const std::string& secret) {
  StoreMessage hello;
  try {
    hello = receive(socket, kToAnswerMs);
  } catch (const Error&) {
    return Greeting::no_store;
  }
  if (hello.what != 'P' || hello.name != "plumbline store 1") return Greeting::no_store;
  const std::string token = random_token();
  try {
    send_all(socket, store_frame(encode({'P', token, proof_of(secret, "client", hello.text, token)})));
    const StoreMessage answer = receive(socket, kAnswerMs);
    const bool good =
        answer.what == 'P' && same_text(answer.text, proof_of(secret, "server", hello.text, token));
    return good ? Greeting::done : Greeting::wrong_secret;
  } catch (const Error&) {
    return Greeting::wrong_secret;
  }
}

}  // namespace

StoreClient::StoreClient(const StoreAddress& address, const std::string& secret, Seconds limit) {
  const auto deadline = deadline_in(limit);
  int wrong_secrets = 0;  // another job may serve at one of the ports, but not every time
  std::string why = "nobody listens";
  do {
    for (int port = address.first_port; port < address.first_port + address.ports; ++port) {
      const int made = connect_to(address.host, port);
      if (made < 0) {
        why = std::strerror(errno);
        continue;
      }
      const Greeting greeting = greet(made, secret);
      if (greeting == Greeting::done) {
        socket_ = made;
        return;
      }
      wrong_secrets += greeting == Greeting::wrong_secret ? 1 : 0;
      close(made);
    }
    std::this_thread::sleep_for(kLook);
  } while (StoreClock::now() < deadline && wrong_secrets < kMostRefusals);
  if (wrong_secrets > 0) {
    throw Error(fmt::format("{}: rank 0 at {} has another secret; export {} with the same text on every host",
                            kSecretVariable, address.host, kSecretVariable));
  }
  throw Error(fmt::format(
      "rank 0 cannot be reached at {}, ports {} to {}, within {:.0f} s: {}; expected its task there "
      "(MASTER_ADDR, MASTER_PORT)",
      address.host, address.first_port, address.first_port + address.ports - 1, limit.value, why));
}

StoreClient::~StoreClient() {
  if (socket_ >= 0) close(socket_);
}

std::string StoreClient::ask(char what, const std::string& name, const std::string& text) {
  send_all(socket_, store_frame(encode({what, name, text})));
  StoreMessage answer = receive(socket_, kAnswerMs);
  if (answer.what != what && answer.what != 'N') throw Error("store: an answer to something else");
  return answer.what + answer.text;
}

void StoreClient::set(const std::string& name, const std::string& text) {
  ask('S', name, text);
}

std::optional<std::string> StoreClient::find(const std::string& name) {
  const std::string answer = ask('F', name, "");
  if (answer.front() == 'N') return std::nullopt;
  return answer.substr(1);
}

std::string StoreClient::wait_for(const std::string& name, Seconds limit) {
  const auto deadline = deadline_in(limit);
  for (;;) {
    if (const auto text = find(name)) return *text;
    if (StoreClock::now() >= deadline)
      throw Error(fmt::format("store: no {} within {:.0f} s", name, limit.value));
    std::this_thread::sleep_for(kLook);
  }
}

void StoreClient::set_at_end(const std::string& name, const std::string& text) {
  ask('E', name, text);
}

std::string StoreClient::own_address() const {
  sockaddr_in place{};
  socklen_t size = sizeof place;
  std::array<char, INET_ADDRSTRLEN> text{};
  if (getsockname(socket_, reinterpret_cast<sockaddr*>(&place), &size) != 0 ||
      inet_ntop(AF_INET, &place.sin_addr, text.data(), text.size()) == nullptr) {
    return "";
  }
  return text.data();
}

}  // namespace plumbline
