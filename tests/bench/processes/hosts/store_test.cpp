// The store: its contents, proofs and sealed streams, frames. Attackers are in store_attack_test.cpp.
#include "bench/processes/hosts/store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/processes/hosts/store_seal.hpp"
#include "bench/processes/hosts/store_wire.hpp"
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
  return server.own_address();
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

TEST(Store, WithoutASecretServesItsOwnHost) {
  const auto server = server_with("");
  StoreClient store(address_of(*server), "", kSoon);
  store.set("a", "b");
  EXPECT_EQ(store.find("a"), "b");
  EXPECT_EQ(server->refused_host(), "");
}

TEST(Store, ProofsHoldForOneSideAndOneMeeting) {
  const StoreKey key("secret");
  const StoreMeeting meeting{"server nonce", "client nonce", "client header", "server header"};
  const std::string proof = proof_of(key, StoreSide::client, meeting);
  EXPECT_EQ(proof, proof_of(key, StoreSide::client, meeting));
  EXPECT_EQ(proof.size(), kProofBytes);
  EXPECT_NE(proof, proof_of(key, StoreSide::server, meeting));
  EXPECT_NE(proof, proof_of(StoreKey("other"), StoreSide::client, meeting));
  for (std::string StoreMeeting::*part : {&StoreMeeting::server_nonce, &StoreMeeting::client_nonce,
                                          &StoreMeeting::client_header, &StoreMeeting::server_header}) {
    StoreMeeting other = meeting;
    (other.*part).front() = '\0';
    EXPECT_NE(proof, proof_of(key, StoreSide::client, other));
  }
  // The same bytes, cut elsewhere.
  EXPECT_NE(proof, proof_of(key, StoreSide::client,
                            {"server nonc", "eclient nonce", "client header", "server header"}));
  EXPECT_NE(fresh_nonce(), fresh_nonce());
}

TEST(Store, StreamsOpenInTheirOrderAndForTheirSideOnly) {
  const StoreKey key("secret");
  StoreMeeting meeting{fresh_nonce(), fresh_nonce(), "", ""};
  SealingStream from_client(key, StoreSide::client, meeting);
  meeting.client_header = meeting.server_header = from_client.header();
  const std::string first = from_client.seal("first");
  const std::string second = from_client.seal("first");
  EXPECT_NE(first, second);
  EXPECT_EQ(OpeningStream(key, StoreSide::client, meeting).open(second), std::nullopt);
  EXPECT_EQ(OpeningStream(key, StoreSide::server, meeting).open(first), std::nullopt);
  EXPECT_EQ(OpeningStream(StoreKey("other"), StoreSide::client, meeting).open(first), std::nullopt);
  StoreMeeting later = meeting;
  later.client_nonce = fresh_nonce();
  EXPECT_EQ(OpeningStream(key, StoreSide::client, later).open(first), std::nullopt);
  OpeningStream opening(key, StoreSide::client, meeting);
  EXPECT_EQ(opening.open(first), "first");
  EXPECT_EQ(opening.open(first), std::nullopt);
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
  const std::string longest(kLongestStoreText, 'x');
  EXPECT_TRUE(decode_store_message(encode({'S', "a", longest})).has_value());
  EXPECT_FALSE(decode_store_message(encode({'S', "a", longest}) + "x").has_value());
}

TEST(Store, ListsAreTakenAsTheyWerePacked) {
  const std::vector<std::string> lists[] = {{}, {""}, {"", ""}, {"a b", std::string("\0\n", 2), ""}};
  for (const auto& list : lists) EXPECT_EQ(unpack_texts(pack_texts(list)), list);
  for (const char* bytes : {"abc", "\1\1\1\1a"}) EXPECT_EQ(unpack_texts(bytes), std::nullopt);
  EXPECT_EQ(unpack_texts(std::string("\2\0\0\0a", 5)), std::nullopt);
}

}  // namespace
}  // namespace plumbline
