// Rogue servers: a process in place of rank 0's store learns nothing and orders nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "core/base/error.hpp"
#include "store_lines.hpp"

namespace plumbline {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr Seconds kShort{0.3};
const std::string kShared = "shared";

std::string greeting_with(const std::string& nonce, char letter = kGreets) {
  return std::string(kStoreGreeting) + letter + nonce;
}

/// Receives the client's claim and answers as a server with that secret would, for right and wrong claims.
void answer_with(const std::string& secret, StoreSide side, const Line& line) {
  Claim claim;
  claim.meeting.server_nonce = fresh_nonce();
  line.say(greeting_with(claim.meeting.server_nonce));
  const std::string said = line.hear(kClientProofBytes);
  if (said.size() < kClientProofBytes) return;
  claim.meeting.client_nonce = said.substr(0, kNonceBytes);
  claim.meeting.client_header = said.substr(kNonceBytes, kStreamHeaderBytes);
  const StoreKey key(secret);
  claim.meeting.server_header = SealingStream(key, StoreSide::server, claim.meeting).header();
  line.say(kGreets + claim.meeting.server_header + proof_of(key, side, claim.meeting));
}

struct Rogue {
  const char* name;
  std::function<void(const Line& line)> does;
};

const Rogue kRogues[] = {
    {"ends at once", [](auto&) {}},
    {"is another program", [](auto& line) { line.say("SSH-2.0-OpenSSH_9.2\r\n" + std::string(200, 'x')); }},
    {"has the protocol's first version",
     [](auto& line) {
       line.say(store_frame(encode({'P', "plumbline store 1", "0123"})) + std::string(90, 'x'));
     }},
    {"ends within its greeting", [](auto& line) { line.say(greeting_with(fresh_nonce()).substr(0, 30)); }},
    {"refuses",
     [](auto& line) {
       line.say(greeting_with(fresh_nonce()));
       line.hear(kClientProofBytes);
       line.say(std::string(1, kRefuses));
     }},
    {"greets without a proof",
     [](auto& line) {
       line.say(greeting_with(fresh_nonce()));
       line.hear(kClientProofBytes);
       line.say(std::string(kServerProofBytes, kGreets));
     }},
    {"has zero bytes for nonce and proof",
     [](auto& line) {
       line.say(greeting_with(std::string(kNonceBytes, '\0')));
       line.hear(kClientProofBytes);
       line.say(kGreets + std::string(kServerProofBytes - 1, '\0'));
     }},
    {"says the client's own header and proof",
     [](auto& line) {
       line.say(greeting_with(fresh_nonce()));
       line.say(kGreets + line.hear(kClientProofBytes).substr(kNonceBytes));
     }},
    {"has no secret", [](auto& line) { answer_with("", StoreSide::server, line); }},
    {"has the secret but for its end", [](auto& line) { answer_with("share", StoreSide::server, line); }},
    {"has the secret, but is no server", [](auto& line) { answer_with(kShared, StoreSide::client, line); }},
    {"has a proof that ends early",
     [](auto& line) {
       line.say(greeting_with(fresh_nonce()));
       line.hear(kClientProofBytes);
       line.say(std::string(kServerProofBytes - 1, kGreets));
     }},
    {"says everything slowly",
     [](auto& line) {
       for (const char c : greeting_with(fresh_nonce())) {
         line.say(std::string(1, c));
         std::this_thread::sleep_for(std::chrono::milliseconds(30));
       }
     }},
    {"says nothing", [](auto& line) { line.hear(1, 3000); }},
};

TEST(StoreRogue, NoClientBelievesIt) {
  for (const Rogue& rogue : kRogues) {
    SCOPED_TRACE(rogue.name);
    const Listening listening([&](const Line& line) { rogue.does(line); });
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_THROW(StoreClient(listening.address(), kShared, kShort), Error);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(60));
  }
}

// It has recorded a whole meeting of the real server and repeats the server's part, nonce and all.
TEST(StoreRogue, WhatTheRealServerSaidOnceIsWorthNothing) {
  std::string greeting;
  std::string proof;
  {
    const StoreServer server({"127.0.0.1", 0, 1}, kShared);
    const Listening between([&](Line& client) {
      stand_between(client, server.own_address(), [&](bool of_client, int number, const std::string& unit) {
        if (!of_client && number == 0) greeting = unit;
        if (!of_client && number == 1) proof = unit;
        return of_client ? Passed{unit, ""} : Passed{"", unit};
      });
    });
    StoreClient(between.address(), kShared, {20}).set("a", "b");
  }
  ASSERT_EQ(proof.size(), kServerProofBytes);
  const Listening listening([&](const Line& line) {
    line.say(greeting);
    line.hear(kClientProofBytes);
    line.say(proof);
  });
  EXPECT_THROW(StoreClient(listening.address(), kShared, kShort), Error);
}

TEST(StoreRogue, AClientFindsTheRealServerBehindOne) {
  // At the first port somebody else, at the next one rank 0.
  for (const char letter : {kGreets, kRefuses}) {
    std::unique_ptr<Listening> rogue;
    std::unique_ptr<StoreServer> server;
    for (int tries = 0; tries < 50 && !server; ++tries) {
      rogue = std::make_unique<Listening>([letter](const Line& line) {
        line.say(greeting_with(fresh_nonce(), letter));
        line.hear(kClientProofBytes);
        line.say(std::string(1, kRefuses));
      });
      try {
        server = std::make_unique<StoreServer>(StoreAddress{"127.0.0.1", rogue->address().first_port + 1, 1},
                                               kShared);
      } catch (const Error&) {
        continue;  // that port is somebody's
      }
    }
    ASSERT_NE(server, nullptr);
    StoreClient client({"127.0.0.1", rogue->address().first_port, 2}, kShared, {20});
    client.set("a", "b");
    EXPECT_EQ(client.find("a"), "b");
  }
}

TEST(StoreRogue, AStoreWithoutASecretSaysSoToOtherHosts) {
  const Listening listening([](const Line& line) { line.say(greeting_with(fresh_nonce(), kRefuses)); });
  EXPECT_THAT([&] { StoreClient(listening.address(), kShared, {20}); },
              ThrowsMessage<InputError>(HasSubstr("PLUMBLINE_SECRET: missing where rank 0 is (127.0.0.1)")));
}

}  // namespace
}  // namespace plumbline
