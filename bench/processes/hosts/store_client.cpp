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

#include "bench/processes/hosts/store.hpp"
#include "bench/processes/hosts/store_seal.hpp"
#include "bench/processes/hosts/store_wire.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

using StoreClock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kToGreet{1000};     // until the process at a port has identified itself
constexpr std::chrono::milliseconds kToAnswer{10'000};  // until it has proved that it knows the secret
constexpr std::chrono::milliseconds kAnswer{30'000};    // until the server has done the request
constexpr std::chrono::milliseconds kLook{50};
constexpr int kMostRefusals = 20;

StoreClock::time_point deadline_in(Seconds limit) {
  return StoreClock::now() +
         std::chrono::duration_cast<StoreClock::duration>(std::chrono::duration<double>(limit.value));
}

/// A socket that is connected within `kToGreet`, or -1 with errno.
int connect_to(const addrinfo& place) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return -1;
  int error = connect(made, place.ai_addr, place.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd watched{made, POLLOUT, 0};
    socklen_t size = sizeof error;
    if (poll(&watched, 1, static_cast<int>(kToGreet.count())) == 1)
      getsockopt(made, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0) {
    const int on = 1;
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(made, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    return made;
  }
  close(made);
  errno = error;
  return -1;
}

enum class Greeting { done, no_store, wrong_secret, no_secret };

}  // namespace

/// A connected socket and, once both sides have proved themselves, the streams over it.
class StoreChannel {
 public:
  explicit StoreChannel(int socket) : socket_(socket) {}
  ~StoreChannel() { close(socket_); }
  StoreChannel(const StoreChannel&) = delete;
  StoreChannel& operator=(const StoreChannel&) = delete;
  int socket() const { return socket_; }

  /// Not longer than until `last`, but kToGreet at least.
  Greeting greet(const StoreKey& key, StoreClock::time_point last) {
    try {
      const auto patience = StoreClock::now() + kToGreet;
      StoreMeeting meeting;
      if (take(kStoreGreeting.size(), patience) != kStoreGreeting) return Greeting::no_store;
      const std::string letter = take(1, patience);
      meeting.server_nonce = take(kNonceBytes, patience);
      if (letter.front() != kGreets) return Greeting::no_secret;
      meeting.client_nonce = fresh_nonce();
      out_.emplace(key, StoreSide::client, meeting);
      meeting.client_header = out_->header();
      send_all(meeting.client_nonce + meeting.client_header + proof_of(key, StoreSide::client, meeting));
      const auto to_answer = std::clamp(last, StoreClock::now() + kToGreet, StoreClock::now() + kToAnswer);
      if (take(1, to_answer).front() != kGreets) return Greeting::wrong_secret;
      meeting.server_header = take(kStreamHeaderBytes, to_answer);
      const std::string proof = take(kProofBytes, to_answer);
      if (!same_bytes(proof, proof_of(key, StoreSide::server, meeting))) return Greeting::wrong_secret;
      in_.emplace(key, StoreSide::server, meeting);
      return Greeting::done;
    } catch (const Error&) {
      return Greeting::no_store;  // or one that is flooded: the next try may be luckier
    }
  }

  StoreMessage ask(const StoreMessage& message) {
    send_all(store_frame(out_->seal(encode(message))));
    const auto deadline = StoreClock::now() + kAnswer;
    for (;;) {
      bool bad = false;
      if (const auto frame = take_store_frame(received_, bad)) {
        const auto text = in_->open(*frame);
        auto answer = text ? decode_store_message(*text) : std::nullopt;
        if (answer) return std::move(*answer);
        bad = true;
      }
      if (bad) throw Error("store: an answer that rank 0 has not sealed: somebody else has changed it");
      receive(deadline);
    }
  }

 private:
  void send_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) {
        pollfd watched{socket_, POLLOUT, 0};
        if (poll(&watched, 1, static_cast<int>(kAnswer.count())) == 1) continue;
      }
      if (sent <= 0) throw Error(fmt::format("store: rank 0 cannot be reached: {}", std::strerror(errno)));
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  void receive(StoreClock::time_point deadline) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - StoreClock::now()).count();
    pollfd watched{socket_, POLLIN, 0};
    if (left <= 0 || poll(&watched, 1, static_cast<int>(left)) == 0) throw Error("store: no answer");
    std::array<char, 16384> part{};
    const ssize_t got = recv(socket_, part.data(), part.size(), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) throw Error("store: rank 0 has gone");
    received_.append(part.data(), static_cast<std::size_t>(got));
  }

  std::string take(std::size_t bytes, StoreClock::time_point deadline) {
    while (received_.size() < bytes) receive(deadline);
    std::string taken = received_.substr(0, bytes);
    received_.erase(0, bytes);
    return taken;
  }

  int socket_;
  std::string received_;
  std::optional<SealingStream> out_;
  std::optional<OpeningStream> in_;
};

namespace {

/// Results of the tries so far. Another job may serve at one of the ports, but not every time.
struct Tries {
  int wrong_secrets = 0;
  int no_secrets = 0;
  std::string why = "nobody listens";
};

/// At one port, at all addresses that the name has here; nothing when no store of this job is there.
std::unique_ptr<StoreChannel> try_port(const std::string& host, int port, const StoreKey& key,
                                       StoreClock::time_point last, Tries& tries) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int unknown = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (unknown != 0) {
    tries.why = gai_strerror(unknown);
    return nullptr;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> places(found, freeaddrinfo);
  for (const addrinfo* place = found; place != nullptr; place = place->ai_next) {
    const int made = connect_to(*place);
    if (made < 0) {
      tries.why = std::strerror(errno);
      continue;
    }
    auto channel = std::make_unique<StoreChannel>(made);
    const Greeting greeting = channel->greet(key, last);
    if (greeting == Greeting::done) return channel;
    tries.wrong_secrets += greeting == Greeting::wrong_secret ? 1 : 0;
    tries.no_secrets += greeting == Greeting::no_secret ? 1 : 0;
  }
  return nullptr;
}

}  // namespace

StoreClient::StoreClient(const StoreAddress& address, const std::string& secret, Seconds limit) {
  const StoreKey key(secret);
  const auto deadline = deadline_in(limit);
  Tries tries;
  const int last_port = address.first_port + address.ports - 1;
  do {
    for (int port = address.first_port; port <= last_port; ++port) {
      channel_ = try_port(address.host, port, key, deadline, tries);
      if (channel_) return;
    }
    std::this_thread::sleep_for(kLook);
  } while (StoreClock::now() < deadline && tries.wrong_secrets + tries.no_secrets < kMostRefusals);
  if (tries.no_secrets > 0) {
    throw InputError(
        fmt::format("{}: missing where rank 0 is ({}), expected a shared secret, as tasks on several hosts "
                    "start processes for each other; export the same random text on every host",
                    kSecretVariable, address.host));
  }
  if (tries.wrong_secrets > 0) {
    throw Error(fmt::format("{}: rank 0 at {} has another secret; export {} with the same text on every host",
                            kSecretVariable, address.host, kSecretVariable));
  }
  throw Error(fmt::format(
      "rank 0 cannot be reached at {}, ports {} to {}, within {:.0f} s: {}; expected its task there "
      "(MASTER_ADDR, MASTER_PORT; {} there if it listens at another address)",
      address.host, address.first_port, last_port, limit.value, tries.why, kListenVariable));
}

StoreClient::~StoreClient() = default;

std::string StoreClient::ask(char what, const std::string& name, const std::string& text) {
  StoreMessage answer = channel_->ask({what, name, text});
  if ((answer.what != what && answer.what != 'N') || answer.name != name)
    throw Error("store: an answer to something else");
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
  if (getsockname(channel_->socket(), reinterpret_cast<sockaddr*>(&place), &size) != 0 ||
      inet_ntop(AF_INET, &place.sin_addr, text.data(), text.size()) == nullptr) {
    return "";
  }
  return text.data();
}

}  // namespace plumbline
