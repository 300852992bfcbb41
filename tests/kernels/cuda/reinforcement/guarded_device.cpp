#include "tests/kernels/cuda/reinforcement/guarded_device.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace plumbline::test {
namespace {

constexpr std::size_t kBytes = std::size_t{256} << 20;
constexpr std::size_t kAlignment = 256;

class GuardedMemory final : public MemorySource {
 public:
  explicit GuardedMemory(GuardedDevice& device) : device_(device) {}
  void* allocate(Bytes bytes) override { return device_.allocate(static_cast<std::size_t>(bytes.value)); }
  void release(void* data, Bytes /*bytes*/) noexcept override { device_.release(data); }

 private:
  GuardedDevice& device_;
};

class GuardedOperators final : public Operators {
 public:
  GuardedOperators(std::unique_ptr<Operators> operators, GuardedDevice& device)
      : operators_(std::move(operators)), device_(device) {}

#define PLUMBLINE_OPERATOR(type, name, parameters, arguments)        \
  type name parameters override {                                    \
    return device_.with([&] { return operators_->name arguments; }); \
  }
#include "kernels/operator_list.inc"
  std::int64_t attention_scratch(const AttentionShape& shape, DType type) const override {
    return operators_->attention_scratch(shape, type);
  }

 private:
  std::unique_ptr<Operators> operators_;
  GuardedDevice& device_;
};

/// The device is open while a message or started collective is on its way.
class GuardedMessages final : public Communicator {
 public:
  GuardedMessages(std::unique_ptr<Communicator> messages, GuardedDevice& device)
      : Communicator(messages->layout(), messages->rank()), messages_(std::move(messages)), device_(device) {}

  void barrier(Group group) override { messages_->barrier(group); }
  void progress() override { messages_->progress(); }
  Seconds now() const override { return messages_->now(); }

 private:
  Ticket begin(const Collective& call) override {
    if (!call.awaited) return started([&] { return messages_->start(call); });
    device_.with([&] { messages_->run(call); });
    return {};
  }
  Ticket begin(const PointToPoint& message) override {
    return started([&] { return messages_->start(message); });
  }
  Ticket begin(Follower follower) override {
    device_.close();  // of the one before
    return started([&] {
      return messages_->start_all_reduce_after(follower.before, std::move(follower.prepare),
                                               follower.call.group, follower.call.output, follower.call.op);
    });
  }
  void finish(Ticket& ticket) override {
    messages_->wait(ticket);
    device_.close();
  }
  void copy(const Collective& call) override {
    device_.with([&] { messages_->run(call); });
  }
  template <class Start>
  Ticket started(const Start& start) {
    device_.open();
    const Ticket ticket = start();
    if (!ticket) device_.close();
    return ticket;
  }

  std::unique_ptr<Communicator> messages_;
  GuardedDevice& device_;
};

class GuardedHostLane final : public HostLane {
 public:
  explicit GuardedHostLane(GuardedDevice& device) : device_(device) {}
  std::unique_ptr<MemorySource> memory() override { return lane_->memory(); }
  void start(const Matrix& from, const Matrix& to) override {
    device_.with([&] { lane_->start(from, to); });
  }
  void wait() override { lane_->wait(); }

 private:
  std::unique_ptr<HostLane> lane_ = plain_host_lane();
  GuardedDevice& device_;
};

}  // namespace

GuardedDevice::GuardedDevice() {
  void* data = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  begin_ = static_cast<std::byte*>(data);
}

GuardedDevice::~GuardedDevice() {
  ::munmap(begin_, kBytes);
}

void GuardedDevice::open() {
  if (depth_++ == 0) ::mprotect(begin_, kBytes, PROT_READ | PROT_WRITE);
}

void GuardedDevice::close() {
  if (--depth_ == 0) ::mprotect(begin_, kBytes, PROT_NONE);
}

void* GuardedDevice::allocate(std::size_t bytes) {
  const std::size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  std::size_t at = 0;
  for (const auto& [first, end] : used_) {
    if (first - at >= size) break;
    at = end;
  }
  if (at + size > kBytes) throw std::bad_alloc();
  used_[at] = at + size;
  return begin_ + at;
}

void GuardedDevice::release(void* data) {
  used_.erase(static_cast<std::size_t>(static_cast<std::byte*>(data) - begin_));
}

std::unique_ptr<MemorySource> guarded_memory(GuardedDevice& device) {
  return std::make_unique<GuardedMemory>(device);
}

std::unique_ptr<Operators> guarded_operators(std::unique_ptr<Operators> operators, GuardedDevice& device) {
  return std::make_unique<GuardedOperators>(std::move(operators), device);
}

std::unique_ptr<Communicator> guarded_messages(std::unique_ptr<Communicator> messages,
                                               GuardedDevice& device) {
  return std::make_unique<GuardedMessages>(std::move(messages), device);
}

std::unique_ptr<HostLane> guarded_host_lane(GuardedDevice& device) {
  return std::make_unique<GuardedHostLane>(device);
}

}  // namespace plumbline::test
