// Addresses of rank 0's store on hosts as they are set up.
#include "bench/processes/hosts/store_listener.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::vector<std::string> kOwn = {"127.0.0.1", "10.0.0.5", "192.168.1.5"};
constexpr const char* kOutward = "192.168.1.5";

struct Place {
  const char* what;
  const char* name;
  std::vector<std::string> of_name;
  const char* asked;
  bool secret;
  std::vector<std::string> expected;
  const char* own;
};

const Place kPlaces[] = {
    {"an address", "10.0.0.5", {"10.0.0.5"}, "", true, {"10.0.0.5"}, "10.0.0.5"},
    {"a name in DNS", "host1", {"10.0.0.5"}, "", true, {"10.0.0.5"}, "10.0.0.5"},
    {"a name of two networks",
     "host1",
     {"10.0.0.5", "192.168.1.5"},
     "",
     true,
     {"10.0.0.5", "192.168.1.5"},
     "10.0.0.5"},
    {"one host", "localhost", {"127.0.0.1"}, "", true, {"127.0.0.1"}, "127.0.0.1"},
    {"one host as a number", "127.0.0.1", {"127.0.0.1"}, "", true, {"127.0.0.1"}, "127.0.0.1"},
    {"Debian's own name", "host1", {"127.0.1.1"}, "", true, {"127.0.1.1", kOutward}, "127.0.1.1"},
    {"Debian's own name, no secret", "host1", {"127.0.1.1"}, "", false, {"127.0.1.1"}, "127.0.1.1"},
    {"another address is asked for",
     "host1",
     {"127.0.1.1"},
     "10.0.0.5",
     true,
     {"127.0.1.1", "10.0.0.5"},
     "127.0.1.1"},
    {"every interface is asked for", "host1", {"10.0.0.5"}, "0.0.0.0", true, {"0.0.0.0"}, "10.0.0.5"},
    {"every interface, unknown name", "host9", {}, "0.0.0.0", true, {"0.0.0.0"}, "127.0.0.1"},
    {"an address that leads here", "service", {"10.96.0.1"}, "", true, {kOutward}, kOutward},
};

TEST(StoreListener, ListensWhereTheHostsReachIt) {
  for (const Place& each : kPlaces) {
    const ListenPlaces places =
        listen_places(each.name, {each.of_name, kOwn, kOutward}, each.asked, each.secret);
    EXPECT_THAT(places.addresses, ElementsAreArray(each.expected)) << each.what;
    EXPECT_EQ(places.own, each.own) << each.what;
  }
}

TEST(StoreListener, SaysWhatIsNoAddressOfThisHost) {
  EXPECT_THAT(
      [] {
        listen_places("host9", {{}, kOwn, kOutward}, "", true);
      },
      ThrowsMessage<InputError>(HasSubstr("rank 0's address: found \"host9\", expected a name or an IPv4 "
                                          "address of this host (127.0.0.1, 10.0.0.5, 192.168.1.5)")));
  EXPECT_THAT(
      [] {
        listen_places("host1", {{"10.0.0.5"}, kOwn, kOutward}, "10.0.0.6", true);
      },
      ThrowsMessage<InputError>(HasSubstr("PLUMBLINE_LISTEN: found \"10.0.0.6\"")));
}

bool connects(const std::string& address, int port) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<std::uint16_t>(port));
  inet_pton(AF_INET, address.c_str(), &place.sin_addr);
  const bool good = connect(made, reinterpret_cast<sockaddr*>(&place), sizeof place) == 0;
  close(made);
  return good;
}

TEST(StoreListener, NoOtherAddressAnswers) {
  const StoreListener one({"localhost", 0, 1}, {"127.0.0.1"});
  EXPECT_TRUE(connects("127.0.0.1", one.port()));
  EXPECT_FALSE(connects("127.0.0.2", one.port()));
  const StoreListener two({"localhost", 0, 1}, {"127.0.0.1", "127.0.0.2"});
  EXPECT_TRUE(connects("127.0.0.1", two.port()));
  EXPECT_TRUE(connects("127.0.0.2", two.port()));
  for (const std::string& each : known_addresses("localhost").own) {
    EXPECT_TRUE(is_loopback(each) || !connects(each, two.port())) << each;
  }
}

TEST(StoreListener, TakesAPortThatIsFreeAtAllAddresses) {
  const StoreListener taken({"localhost", 0, 1}, {"127.0.0.2"});
  EXPECT_THROW(StoreListener({"localhost", taken.port(), 1}, {"127.0.0.1", "127.0.0.2"}), Error);
  const StoreListener next({"localhost", taken.port(), 8}, {"127.0.0.1", "127.0.0.2"});
  EXPECT_NE(next.port(), taken.port());
}

}  // namespace
}  // namespace plumbline
