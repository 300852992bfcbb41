#include "core/run/host_lane.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

void check(const Matrix& from, const Matrix& to) {
  if (!from.contiguous() || !to.contiguous() || from.bytes() != to.bytes())
    throw Error("copy to the host: the matrices must be contiguous and of one size");
}

class PlainHostLane final : public HostLane {
 public:
  std::unique_ptr<MemorySource> memory() override { return host_memory(); }
  void start(const Matrix& from, const Matrix& to) override {
    check(from, to);
    if (!from.empty()) std::memcpy(to.data, from.data, static_cast<std::size_t>(from.bytes().value));
  }
  void wait() override {}
};

class EmulatedHostLane final : public HostLane {
 public:
  EmulatedHostLane(EmulatedClock& clock, HostCopyTime time) : clock_(clock), time_(std::move(time)) {}
  std::unique_ptr<MemorySource> memory() override { return untouched_memory(); }
  void start(const Matrix& from, const Matrix& to) override {
    check(from, to);
    if (clock_.runs()) done_ = std::max(done_, clock_.position()) + time_(from.bytes());
  }
  void wait() override { clock_.advance_to(done_); }

 private:
  EmulatedClock& clock_;
  HostCopyTime time_;
  Seconds done_;
};

}  // namespace

std::unique_ptr<HostLane> plain_host_lane() {
  return std::make_unique<PlainHostLane>();
}

std::unique_ptr<HostLane> emulated_host_lane(EmulatedClock& clock, HostCopyTime time) {
  return std::make_unique<EmulatedHostLane>(clock, std::move(time));
}

}  // namespace plumbline
