// The store: who may use it, what it keeps, and that nothing a stranger says harms it.
#include "bench/hosts/store.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/hosts/store_wire.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr Seconds kSoon{20};

/// Port 0: the system's choice.
std::unique_ptr<StoreServer> server_with(const std::string& secret) {
  return std::make_unique<StoreServer>(StoreAddress{"127.0.0.1", 0, 1}, secret);
}

StoreAddress address_of(const StoreServer& server) {
  return {"127.0.0.1", server.port(), 1};
}

TEST(Store, KeepsWhatItIsTold) {
  const auto server = server_with("s");
  StoreClient one(address_of(*server), "s", kSoon);
  StoreClient other(address_of(*server), "s", kSoon);
  EXPECT_EQ(other.find("a"), std::nullopt);
  one.set("a", "first");
  one.set("a", std::string("sec\0nd", 6));
  EXPECT_EQ(other.find("a"), std::string("sec\0nd", 6));
  one.set("empty", "");
  EXPECT_EQ(other.find("empty"), "");
  const std::string large(kLongestStoreText, 'x');
  one.set("large", large);
  EXPECT_EQ(other.find("large"), large);
  EXPECT_THROW(one.set("larger", large + "x"), Error);
  EXPECT_EQ(one.own_address(), "127.0.0.1");
}

TEST(Store, WaitsForWhatIsNotThereYetButNotForEver) {
  const auto server = server_with("s");
  std::thread later([&] {
    StoreClient store(address_of(*server), "s", kSoon);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    store.set("late", "here");
  });
  StoreClient store(address_of(*server), "s", kSoon);
  EXPECT_EQ(store.wait_for("late", kSoon), "here");
  later.join();
  EXPECT_THAT([&] { store.wait_for("never", {0.1}); }, ThrowsMessage<Error>(HasSubstr("no never within")));
}

TEST(Store, SaysWhenAConnectionEnds) {
  const auto server = server_with("s");
  StoreClient store(address_of(*server), "s", kSoon);
  {
    StoreClient leaving(address_of(*server), "s", kSoon);
    leaving.set_at_end("gone", "yes");
    EXPECT_EQ(store.find("gone"), std::nullopt);
  }
  EXPECT_EQ(store.wait_for("gone", kSoon), "yes");
}

TEST(Store, AnotherSecretIsSaidAndOpensNothing) {
  const auto server = server_with("right");
  EXPECT_THAT([&] { StoreClient(address_of(*server), "wrong", kSoon); },
              ThrowsMessage<Error>(HasSubstr("PLUMBLINE_SECRET: rank 0 at 127.0.0.1 has another secret")));
  EXPECT_THAT(
      [] {
        StoreClient({"127.0.0.1", 1, 1}, "s", {0.1});
      },
      ThrowsMessage<Error>(HasSubstr("cannot be reached at 127.0.0.1")));
}

TEST(Store, ProofsHoldForOneSideAndOneMeeting) {
  const std::string proof = proof_of("secret", "client", "a", "b");
  EXPECT_NE(proof, proof_of("secret", "server", "a", "b"));
  EXPECT_NE(proof, proof_of("secret", "client", "c", "b"));
  EXPECT_NE(proof, proof_of("other", "client", "a", "b"));
  EXPECT_EQ(proof, proof_of("secret", "client", "a", "b"));
  EXPECT_EQ(proof.find("secret"), std::string::npos);
  EXPECT_NE(random_token(), random_token());
}

/// Connects and sends `bytes` without a proof.
void send_as_a_stranger(int port, const std::string& bytes) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<std::uint16_t>(port));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(made, reinterpret_cast<sockaddr*>(&place), sizeof place), 0);
  if (send(made, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) perror("send");
  char answer[256];
  while (recv(made, answer, sizeof answer, 0) > 0) {
  }
  close(made);
}

TEST(Store, StrangersGetNothingAndBreakNothing) {
  const auto server = server_with("s");
  const std::vector<std::string> said = {
      "GET / HTTP/1.1\r\n\r\n",
      std::string(8, '\xff'),
      store_frame(""),
      store_frame(encode({'S', "a", "stolen"})),
      store_frame(encode({'P', "short", ""})),
      store_frame(encode({'P', std::string(32, 'a'), "no proof"})) +
          store_frame(encode({'S', "a", "stolen"})),
      std::string(100'000, '\0'),
  };
  for (const std::string& bytes : said) send_as_a_stranger(server->port(), bytes);
  StoreClient store(address_of(*server), "s", kSoon);
  EXPECT_EQ(store.find("a"), std::nullopt);
}

TEST(Store, FramesAreTakenWhole) {
  std::string bytes = store_frame("one") + store_frame("") + store_frame("three").substr(0, 6);
  bool bad = false;
  EXPECT_EQ(take_store_frame(bytes, bad), "one");
  EXPECT_EQ(take_store_frame(bytes, bad), "");
  EXPECT_EQ(take_store_frame(bytes, bad), std::nullopt);
  EXPECT_FALSE(bad);
  bytes = "\xff\xff\xff\xff";
  EXPECT_EQ(take_store_frame(bytes, bad), std::nullopt);
  EXPECT_TRUE(bad);
  EXPECT_FALSE(decode_store_message("").has_value());
  EXPECT_FALSE(decode_store_message(std::string("S\xff\x00", 3)).has_value());
}

}  // namespace
}  // namespace plumbline
