#include "core/run/host_lane.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
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
  EmulatedHostLane(EmulatedClock& clock, HostCopyTime time, LaneNotes* notes)
      : clock_(clock), time_(std::move(time)), notes_(notes) {}
  std::unique_ptr<MemorySource> memory() override { return untouched_memory(); }
  void start(const Matrix& from, const Matrix& to) override {
    check(from, to);
    if (!clock_.runs()) return;
    const Seconds begin = std::max(done_, clock_.position());
    if (!begun_) begun_ = begin;
    done_ = begin + time_(from.bytes());
  }
  void wait() override {
    if (notes_ != nullptr && begun_)
      notes_->add({std::nullopt, *begun_, done_, std::max(Seconds{0}, done_ - clock_.position())});
    begun_.reset();
    clock_.advance_to(done_);
  }

 private:
  EmulatedClock& clock_;
  HostCopyTime time_;
  LaneNotes* notes_;
  std::optional<Seconds> begun_;  // the first copy that has not been waited for
  Seconds done_;
};

}  // namespace

std::unique_ptr<HostLane> plain_host_lane() {
  return std::make_unique<PlainHostLane>();
}

std::unique_ptr<HostLane> emulated_host_lane(EmulatedClock& clock, HostCopyTime time, LaneNotes* notes) {
  return std::make_unique<EmulatedHostLane>(clock, std::move(time), notes);
}

}  // namespace plumbline
