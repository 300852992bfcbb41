// NCCL's promises, between processes of one host: members of a communicator meet in shared memory. For tests
// of the code around NCCL on machines without a GPU.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>

namespace plumbline::fake {

constexpr int kMostMembers = 8;
constexpr std::size_t kChunk = std::size_t{64} << 10;

/// The most thread blocks of this process's communicators, by name; NCCL_CONFIG_UNDEF_INT: NCCL's choice.
std::map<std::string, int>& most_blocks();

/// Calls that this process has put into streams: "ncclSend" and so on.
std::map<std::string, int>& calls_made();

/// True: all streams of this process share one queue of the device.
bool& one_queue();
struct OneQueue {
  explicit OneQueue(bool one) { one_queue() = one; }
  ~OneQueue() { one_queue() = false; }
  OneQueue(const OneQueue&) = delete;
  OneQueue& operator=(const OneQueue&) = delete;
};

/// Registration of memory by this process's NCCL, with its counters.
struct Registration {
  int version = 22809;
  bool has_memory = true;   // ncclMemAlloc gives some
  bool skips = false;       // ncclCommRegister registers nothing and returns no handle
  int allowed = 1'000'000;  // calls of it before it fails
  int alive = 0;            // registered now, of all communicators
  int pieces = 0;           // of ncclMemAlloc, not freed
  int faults =
      0;  // registered twice, freed or left behind while registered, deregistered without being registered
};
Registration& registration();

/// True: operations of this process never end by themselves.
bool& stalls();

/// Number of times that this process has waited for the device: for a stream, an event or all of it.
int waits_for_the_device();

/// Bytes that this process has copied between host and device.
std::size_t bytes_between_host_and_device();

/// A piece of a message from one member to another.
constexpr std::size_t kMailBytes = std::size_t{16} << 10;
struct Mailbox {
  std::atomic<bool> full{false};
  std::size_t message = 0;  // bytes of all of it
  std::byte area[kMailBytes];
};

/// The shared memory of one communicator.
struct Meeting {
  std::atomic<int> arrived{0};
  std::atomic<int> round{0};
  alignas(64) std::byte area[kMostMembers][kChunk];
  Mailbox mail[kMostMembers][kMostMembers];  // from, to
};

/// One member's end. Operations block until all members have reached them, as on the device.
class SharedComm {
 public:
  /// Makes the memory of a new communicator and returns its name.
  static std::string create();

  SharedComm(const std::string& name, int members, int member);
  ~SharedComm();
  SharedComm(const SharedComm&) = delete;
  SharedComm& operator=(const SharedComm&) = delete;

  int members() const { return members_; }
  int member() const { return member_; }
  /// Ends this member's waiting, as ncclCommAbort does: the others keep waiting until they abort too.
  void abort() { aborted_ = true; }
  void wait_for_abort() const {
    while (!aborted_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  bool aborted() const { return aborted_; }
  /// Operations that are in a stream and have not ended.
  std::atomic<int> under_way{0};

  /// In rounds of a chunk: every member puts down the bytes of `fill`, then `take` reads those of all
  /// members. Stops early when aborted.
  void exchange(std::size_t bytes,
                const std::function<void(std::byte* mine, std::size_t at, std::size_t count)>& fill,
                const std::function<void(const Meeting& all, std::size_t at, std::size_t count)>& take);

  /// The next `count` bytes of a message of `all`, unless the last ones have not been taken, or there are
  /// none. The process ends if the ends disagree about `all`, where a device waits for ever.
  bool put(int to, const std::byte* data, std::size_t count, std::size_t all);
  bool take(int from, std::byte* data, std::size_t count, std::size_t all);

 private:
  bool meet();

  std::string name_;
  int members_;
  int member_;
  std::atomic<bool> aborted_{false};
  Meeting* meeting_ = nullptr;
};

}  // namespace plumbline::fake
