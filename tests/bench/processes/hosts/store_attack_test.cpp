// Attackers of a store who know everything but the secret: they neither get in nor change anything in
// between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "store_lines.hpp"

namespace plumbline {
namespace {

using ::testing::AnyOf;

constexpr Seconds kSoon{20};
const std::string kSecret("job\0secret", 10);  // bytes after a zero byte count, too

std::unique_ptr<StoreServer> attacked_server(const std::string& secret = kSecret) {
  return std::make_unique<StoreServer>(StoreAddress{"127.0.0.1", 0, 1}, secret);
}

/// Dialogue of a client and its server when the client set "recorded".
struct Recording {
  std::vector<std::string> from_client;
  std::vector<std::string> from_server;
};

Recording record_client(const StoreServer& server) {
  Recording recording;
  const Listening between([&](Line& client) {
    stand_between(client, server.own_address(), [&](bool from_client, int, const std::string& unit) {
      (from_client ? recording.from_client : recording.from_server).push_back(unit);
      return from_client ? Passed{unit, ""} : Passed{"", unit};
    });
  });
  StoreClient(between.address(), kSecret, kSoon).set("recorded", "1");
  return recording;
}

std::string changed(std::string bytes, std::size_t at) {
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  return bytes;
}

/// A request in the clear, as the protocol's first version had it.
std::string plain_request() {
  return store_frame(encode({'S', "stolen", "1"}));
}

struct Stranger {
  const char* name;
  std::function<std::string(const std::string& greeting, const Recording& recorded)> says;
};

std::string claimed(const std::string& secret, const std::string& greeting) {
  return claim_with(secret, greeting).said;
}

const Stranger kStrangers[] = {
    {"another protocol", [](auto&, auto&) { return std::string("GET / HTTP/1.1\r\nHost: a\r\n\r\n"); }},
    {"a request in place of a proof", [](auto&, auto&) { return plain_request() + std::string(200, 'x'); }},
    {"lengths that nothing has", [](auto&, auto&) { return std::string(kClientProofBytes, '\xff'); }},
    {"nothing but zero bytes", [](auto&, auto&) { return std::string(kClientProofBytes, '\0'); }},
    {"too much", [](auto&, auto&) { return std::string(1 << 20, 'x'); }},
    {"the greeting again", [](auto& g, auto&) { return g + g; }},
    {"no secret", [](auto& g, auto&) { return claimed("", g); }},
    {"the secret up to its zero byte", [](auto& g, auto&) { return claimed("job", g); }},
    {"another end of the secret", [](auto& g, auto&) { return claimed(kSecret + "x", g); }},
    {"a secret of a megabyte", [](auto& g, auto&) { return claimed(std::string(1 << 20, 's'), g); }},
    {"a nonce that begins with a zero byte",
     [](auto& g, auto&) {
       Claim claim = claim_with("", g);
       claim.meeting.client_nonce.front() = '\0';
       return claim.meeting.client_nonce + claim.meeting.client_header +
              proof_of(StoreKey(""), StoreSide::client, claim.meeting);
     }},
    {"the server's nonce as its own",
     [](auto& g, auto&) {
       Claim claim = claim_with("", g);
       claim.meeting.client_nonce = claim.meeting.server_nonce;
       return claim.meeting.client_nonce + claim.meeting.client_header +
              proof_of(StoreKey(""), StoreSide::client, claim.meeting);
     }},
    {"the other side's proof, even with the secret",
     [](auto& g, auto&) { return claim_with(kSecret, g, StoreSide::server).said; }},
    {"a proof of an earlier meeting", [](auto&, auto& r) { return r.from_client[0]; }},
    {"an earlier proof with its requests",
     [](auto&, auto& r) { return r.from_client[0] + r.from_client[1]; }},
    {"an earlier answer of the server",
     [](auto&, auto& r) { return r.from_server[0].substr(kStoreGreeting.size() + 1) + r.from_server[1]; }},
    {"an earlier proof for today's nonces",
     [](auto& g, auto& r) {
       return claimed("", g).substr(0, kNonceBytes + kStreamHeaderBytes) +
              r.from_client[0].substr(kNonceBytes + kStreamHeaderBytes);
     }},
    {"a right proof with another nonce", [](auto& g, auto&) { return changed(claimed(kSecret, g), 0); }},
    {"a right proof with another stream header",
     [](auto& g, auto&) { return changed(claimed(kSecret, g), kNonceBytes); }},
    {"a right proof but for one bit",
     [](auto& g, auto&) { return changed(claimed(kSecret, g), kClientProofBytes - 1); }},
    {"a right proof but for its last byte",
     [](auto& g, auto&) { return claimed(kSecret, g).substr(0, kClientProofBytes - 1); }},
    {"a right proof with a request in the clear",
     [](auto& g, auto&) { return claimed(kSecret, g) + plain_request(); }},
};

TEST(StoreAttack, NoStrangerGetsIn) {
  const auto server = attacked_server();
  const Recording recorded = record_client(*server);
  ASSERT_EQ(recorded.from_client.size(), 2U);
  StoreClient inside(server->own_address(), kSecret, kSoon);
  inside.set("recorded", "2");
  for (const Stranger& stranger : kStrangers) {
    SCOPED_TRACE(stranger.name);
    const Line line(server->own_address());
    const std::string greeting = line.hear(kGreetingBytes);
    ASSERT_EQ(greeting.size(), kGreetingBytes);
    line.say(stranger.says(greeting, recorded));
    shutdown(line.socket(), SHUT_WR);
    EXPECT_THAT(line.hear(1000), AnyOf("", std::string(1, kRefuses)));
    EXPECT_TRUE(line.ended_within(2000));
    EXPECT_EQ(inside.find("stolen"), std::nullopt);
    EXPECT_EQ(inside.find("recorded"), "2");
  }
}

// A correct proof opens nothing to a client without the key of the later messages.
TEST(StoreAttack, WhoProvedItselfMustSealItsRequests) {
  const auto server = attacked_server();
  const std::string sealed_otherwise = SealingStream(StoreKey("x"), StoreSide::client, {}).seal("S stolen");
  const std::string requests[] = {
      plain_request(),
      store_frame(""),
      store_frame(std::string(kSealBytes - 1, 'x')),
      std::string(8, '\xff'),
      store_frame(std::string(kSealBytes, '\0')),
      store_frame(sealed_otherwise),
  };
  for (const std::string& request : requests) {
    const Line line(server->own_address());
    line.say(claimed(kSecret, line.hear(kGreetingBytes)));
    ASSERT_EQ(line.hear(kServerProofBytes).size(), kServerProofBytes);
    line.say(request);
    EXPECT_TRUE(line.ended_within(2000)) << request.size();
  }
  EXPECT_EQ(StoreClient(server->own_address(), kSecret, kSoon).find("stolen"), std::nullopt);
}

struct Between {
  const char* name;
  bool of_client;  // that the unit comes from
  int number;      // of the unit
  std::function<Passed(const std::string& unit, const std::string& unit_before)> does;
};

Passed on(bool of_client, const std::string& bytes) {
  return of_client ? Passed{bytes, ""} : Passed{"", bytes};
}

const Between kBetween[] = {
    {"changes a request", true, 2, [](auto& u, auto&) { return on(true, changed(u, u.size() - 1)); }},
    {"changes a request's name", true, 2, [](auto& u, auto&) { return on(true, changed(u, 9)); }},
    {"makes a request shorter", true, 2,
     [](auto& u, auto&) { return on(true, store_frame(u.substr(4, u.size() - 5))); }},
    {"makes a request longer", true, 2,
     [](auto& u, auto&) { return on(true, store_frame(u.substr(4) + "x")); }},
    {"says another length", true, 2, [](auto& u, auto&) { return on(true, changed(u, 3)); }},
    {"repeats a request in place of the next", true, 2, [](auto&, auto& b) { return on(true, b); }},
    {"sends a request back as its answer", true, 2, [](auto& u, auto&) { return on(false, u); }},
    {"puts a request in the clear before another", true, 2,
     [](auto& u, auto&) { return on(true, plain_request() + u); }},
    {"changes an answer", false, 3, [](auto& u, auto&) { return on(false, changed(u, u.size() - 1)); }},
    {"repeats an answer in place of the next", false, 3, [](auto&, auto& b) { return on(false, b); }},
    {"sends an answer back as a request", false, 3, [](auto& u, auto&) { return on(true, u); }},
    {"answers in the clear", false, 3,
     [](auto&, auto&) {
       return on(false, store_frame(encode({'S', "a", ""})));
     }},
};

// The client sets a to 1, then to 2; the second request or its answer is tampered with.
TEST(StoreAttack, NobodyInBetweenChangesAThing) {
  for (const Between& attack : kBetween) {
    SCOPED_TRACE(attack.name);
    const auto server = attacked_server();
    StoreClient inside(server->own_address(), kSecret, kSoon);
    {
      std::string before;
      const Listening between([&](Line& client) {
        stand_between(client, server->own_address(),
                      [&](bool of_client, int number, const std::string& unit) {
                        const bool here = of_client == attack.of_client && number == attack.number;
                        const Passed passed = here ? attack.does(unit, before) : on(of_client, unit);
                        if (of_client == attack.of_client) before = unit;
                        return passed;
                      });
      });
      StoreClient outside(between.address(), kSecret, kSoon);
      outside.set("a", "1");
      EXPECT_THROW(outside.set("a", "2"), Error);
    }
    EXPECT_EQ(inside.find("stolen"), std::nullopt);
    EXPECT_EQ(inside.find("a"), attack.of_client ? "1" : "2");  // that it was not answered is all one can do
  }
}

TEST(StoreAttack, MeetingsThatSomebodyChangedComeToNothing) {
  const struct {
    bool of_client;
    int number;
    std::size_t at;
  } changes[] = {{false, 0, kStoreGreeting.size() + 1},
                 {false, 0, kGreetingBytes - 1},
                 {true, 0, 0},
                 {true, 0, kNonceBytes},
                 {true, 0, kClientProofBytes - 1},
                 {false, 1, 1},
                 {false, 1, kServerProofBytes - 1}};
  const auto server = attacked_server();
  for (const auto& change : changes) {
    const Listening between([&](Line& client) {
      stand_between(client, server->own_address(), [&](bool of_client, int number, const std::string& unit) {
        const bool here = of_client == change.of_client && number == change.number;
        return on(of_client, here ? changed(unit, change.at) : unit);
      });
    });
    EXPECT_THROW(StoreClient(between.address(), kSecret, {0.2}), Error)
        << change.of_client << change.number << " " << change.at;
  }
}

TEST(StoreAttack, SecretsOfAnyLengthAndBytesAreHeldApart) {
  const std::string longest(100'000, 's');
  const std::string texts[] = {"",
                               "x",
                               "secret",
                               "secre",
                               "Secret",
                               " secret",
                               std::string("a\0b", 3),
                               std::string("a\0c", 3),
                               "a",
                               std::string(1, '\0'),
                               std::string(2, '\0'),
                               longest,
                               longest + "s",
                               longest.substr(1) + "t"};
  for (const std::string& served : texts) {
    const auto server = attacked_server(served);
    for (const std::string& claimed_secret : texts) {
      const Line line(server->own_address());
      line.say(claimed(claimed_secret, line.hear(kGreetingBytes)));
      EXPECT_EQ(line.hear(1), std::string(1, served == claimed_secret ? kGreets : kRefuses));
    }
  }
}

}  // namespace
}  // namespace plumbline
