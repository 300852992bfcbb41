// Connections without a proof: however many, they delay no other.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "store_lines.hpp"

namespace plumbline {
namespace {

using namespace std::chrono_literals;

constexpr Seconds kSoon{20};
constexpr const char* kSecret = "secret";

std::unique_ptr<StoreServer> flooded_server() {
  return std::make_unique<StoreServer>(StoreAddress{"127.0.0.1", 0, 1}, kSecret);
}

/// Enough descriptors for a flood of `connections` from this process.
void raise_open_files(std::size_t connections) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::max<rlim_t>(limit.rlim_cur, connections + 200);
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::size_t open_files() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST(StoreFlood, AFloodOfConnectionsDelaysNobodyAndHoldsFewDescriptors) {
  constexpr std::size_t kFlood = 1000;
  raise_open_files(kFlood);
  const auto server = flooded_server();
  StoreClient inside(server->own_address(), kSecret, kSoon);
  const std::size_t before = open_files();
  std::vector<std::unique_ptr<Line>> flood;
  for (std::size_t i = 0; i < kFlood; ++i) {
    flood.push_back(std::make_unique<Line>(server->own_address()));
    if (i % 3 == 0) flood.back()->say("p");  // some of them slowly
  }
  auto quickest = std::chrono::steady_clock::duration::max();  // a busy machine may take its time once
  for (int tries = 0; tries < 3; ++tries) {
    const auto begun = std::chrono::steady_clock::now();
    StoreClient task(server->own_address(), kSecret, kSoon);
    task.set("task 1", "here");
    quickest = std::min(quickest, std::chrono::steady_clock::now() - begun);
    EXPECT_LE(open_files(), before + kFlood + 64 + 8);  // both ends of these connections
  }
  EXPECT_LT(quickest, 1s);
  EXPECT_EQ(inside.find("task 1"), "here");
  EXPECT_TRUE(flood.front()->ended_within(0));  // the first ones made room
}

TEST(StoreFlood, WhoProvesNothingIsSentAwaySoon) {
  const auto server = flooded_server();
  StoreClient inside(server->own_address(), kSecret, kSoon);
  const Line idle(server->own_address());
  const Line slow(server->own_address());
  bool slow_ended = false;
  for (int i = 0; i < 60 && !slow_ended; ++i) {
    slow.say("x");
    slow.hear(kGreetingBytes, 0);
    slow_ended = i > 10 && slow.ended_within(0);
    std::this_thread::sleep_for(100ms);
  }
  EXPECT_TRUE(slow_ended);
  EXPECT_TRUE(idle.ended_within(2000));
  inside.set("still", "here");
}

}  // namespace
}  // namespace plumbline
