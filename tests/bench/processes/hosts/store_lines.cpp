// Sockets, and a process between two of them.
#include "store_lines.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>

namespace plumbline {
namespace {

sockaddr_in place_of(int port) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<std::uint16_t>(port));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return place;
}

bool readable(int socket, int limit_ms) {
  pollfd watched{socket, POLLIN, 0};
  return poll(&watched, 1, limit_ms) == 1;
}

/// The first whole unit of `bytes`, taken from them; empty when it is not whole yet.
std::string take_unit(std::string& bytes, bool from_client, int number) {
  std::size_t size = 0;
  if (number == 0) {
    size = from_client ? kClientProofBytes : kGreetingBytes;
  } else if (number == 1 && !from_client) {
    size = kServerProofBytes;
  } else {
    if (bytes.size() < 4) return "";
    for (std::size_t i = 0; i < 4; ++i) size |= std::size_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    size += 4;
  }
  if (bytes.size() < size) return "";
  std::string unit = bytes.substr(0, size);
  bytes.erase(0, size);
  return unit;
}

}  // namespace

Line::Line(const StoreAddress& address) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_in place = place_of(address.first_port);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0) end();
}

void Line::say(const std::string& bytes) const {
  // Into a connection that the other side has ended: no news here.
  [[maybe_unused]] const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

std::string Line::hear(std::size_t bytes, int limit_ms) const {
  std::string heard;
  while (heard.size() < bytes && readable(socket_, limit_ms)) {
    std::array<char, 4096> part{};
    const ssize_t got = recv(socket_, part.data(), std::min(part.size(), bytes - heard.size()), 0);
    if (got <= 0) break;
    heard.append(part.data(), static_cast<std::size_t>(got));
  }
  return heard;
}

bool Line::ended_within(int limit_ms) const {
  std::array<char, 4096> part{};
  while (readable(socket_, limit_ms)) {
    if (recv(socket_, part.data(), part.size(), 0) <= 0) return true;
  }
  return false;
}

void Line::end() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

Listening::Listening(std::function<void(Line& line)> does)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in place = place_of(0);
  socklen_t size = sizeof place;
  bind(socket_, reinterpret_cast<sockaddr*>(&place), sizeof place);
  listen(socket_, 16);
  getsockname(socket_, reinterpret_cast<sockaddr*>(&place), &size);
  port_ = ntohs(place.sin_port);
  thread_ = std::thread([this, does = std::move(does)] {
    for (;;) {
      Line line(accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC));
      if (line.socket() < 0) return;
      does(line);
    }
  });
}

Listening::~Listening() {
  shutdown(socket_, SHUT_RDWR);  // wakes accept
  thread_.join();
  close(socket_);
}

Claim claim_with(const std::string& secret, const std::string& greeting, StoreSide side) {
  Claim claim;
  const StoreKey key(secret);
  claim.meeting.server_nonce = greeting.substr(kStoreGreeting.size() + 1);
  claim.meeting.client_nonce = fresh_nonce();
  claim.meeting.client_header = SealingStream(key, StoreSide::client, claim.meeting).header();
  claim.said = claim.meeting.client_nonce + claim.meeting.client_header + proof_of(key, side, claim.meeting);
  return claim;
}

void stand_between(Line& client, const StoreAddress& server, const Change& change) {
  const Line behind(server);
  std::array<std::string, 2> received;  // from the client, from the server
  std::array<int, 2> numbers{};
  std::array<pollfd, 2> watched{{{client.socket(), POLLIN, 0}, {behind.socket(), POLLIN, 0}}};
  while (poll(watched.data(), watched.size(), 20'000) > 0) {
    for (std::size_t side = 0; side < 2; ++side) {
      if (watched[side].revents == 0) continue;
      std::array<char, 4096> part{};
      const ssize_t got = recv(watched[side].fd, part.data(), part.size(), 0);
      if (got <= 0) return client.end();
      received[side].append(part.data(), static_cast<std::size_t>(got));
      for (;;) {
        const std::string unit = take_unit(received[side], side == 0, numbers[side]);
        if (unit.empty()) break;
        const Passed passed = change(side == 0, numbers[side]++, unit);
        behind.say(passed.to_server);
        client.say(passed.to_client);
      }
    }
  }
}

}  // namespace plumbline
