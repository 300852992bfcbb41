#include "bench/cuda/cuda_trace.hpp"

#include <fmt/format.h>

#include "core/backends/mpi/clock.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"
#include "core/profile/activity_message.hpp"

namespace plumbline {
namespace {

constexpr int kTag = 7;

/// The bytes as a message; MPI counts words.
Matrix words(std::vector<std::uint8_t>& bytes) {
  bytes.resize((bytes.size() + 3) / 4 * 4);
  return {bytes.data(), 1, static_cast<std::int64_t>(bytes.size() / 4), DType::int32};
}

void send(MpiCommunicator& control, std::vector<std::uint8_t> bytes) {
  std::int64_t size = static_cast<std::int64_t>(bytes.size());
  Ticket first = control.send(Matrix(&size, 1, 2, DType::int32), 0, kTag);
  control.wait(first);
  Ticket second = control.send(words(bytes), 0, kTag);
  control.wait(second);
}

std::vector<std::uint8_t> receive(MpiCommunicator& control, int from) {
  std::int64_t size = 0;
  Ticket first = control.receive(Matrix(&size, 1, 2, DType::int32), from, kTag);
  control.wait(first);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
  Ticket second = control.receive(words(bytes), from, kTag);
  control.wait(second);
  bytes.resize(static_cast<std::size_t>(size));
  return bytes;
}

}  // namespace

CudaTrace::CudaTrace(MpiCommunicator& control) : control_(control) {
  std::string reason;
  collector_ = CuptiCollector::start(reason);
  if (!collector_ && control.rank() == 0) fmt::print(stderr, "note: {}\n", reason);
  first_ = read_clock();
}

ClockReading CudaTrace::read_clock() const {
  const ClockOffset offset = common_clock(MPI_COMM_WORLD);
  return {monotonic_now(), offset.offset, offset.error};
}

void CudaTrace::step_begins(int index) {
  if (collector_) collector_->step_begins(index);
}

void CudaTrace::action_begins(const Action& action, Bytes message) {
  if (collector_) collector_->action_begins(action, message);
}

void CudaTrace::action_goes_on(const Action& action) {
  if (collector_) collector_->action_goes_on(action);
}

void CudaTrace::action_ends(const Action& action) {
  if (collector_) collector_->action_ends(action);
}

void CudaTrace::step_ends(Seconds origin, std::vector<Event>& events, Seconds& tensor_communication) {
  if (collector_) collector_->step_ends(origin, events, tensor_communication);
  origin_ = origin;
  events_ = events;
}

RankActivities CudaTrace::activities(Seconds device_error) const {
  const Coordinates at = control_.layout().coordinates(control_.rank());
  RankActivities mine;
  mine.pipeline_rank = at.pipeline;
  mine.first = first_;
  mine.last = last_;
  mine.first.error += device_error;
  mine.last.error += device_error;
  // The events' times are since the origin, on the common clock.
  const AlignedClock clock(mine.first, mine.last);
  const Seconds to_own = origin_ - (clock.to_common(mine.last.at) - mine.last.at);
  for (const Event& event : events_) {
    mine.actions.push_back({event.action, event.start + to_own, event.end + to_own});
  }
  if (collector_) {
    if (collector_->dropped() > 0) {
      throw Error(fmt::format("CUPTI lost {} records: the kernels of the step are not complete",
                              collector_->dropped()));
    }
    mine.activities = attribute(collector_->recorded(), collector_->windows());
  }
  return mine;
}

std::string CudaTrace::write(const Schedule& schedule, const std::string& path, Seconds device_error) {
  const Layout& layout = control_.layout();
  const Coordinates at = layout.coordinates(control_.rank());
  const bool shown = at.tensor == 0 && at.data == 0;
  last_ = read_clock();  // of all ranks together
  std::string failure;
  std::vector<std::uint8_t> bytes;
  try {
    if (shown) bytes = to_bytes(activities(device_error));
  } catch (const std::exception& error) {
    failure = fmt::format("rank {}: {}", control_.rank(), error.what());
  }
  if (control_.rank() != 0) {
    // Rank 0 waits for it in any case.
    if (shown) send(control_, failure.empty() ? bytes : std::vector<std::uint8_t>(1));
    if (!failure.empty()) say(fmt::format("note: --trace: {}\n", failure));
    return "";
  }
  std::vector<std::vector<std::uint8_t>> all = {bytes};  // world rank 0 is pipeline rank 0
  for (int pipeline_rank = 1; pipeline_rank < layout.pipeline; ++pipeline_rank) {
    all.push_back(receive(control_, layout.rank_of({0, 0, pipeline_rank})));
    if (all.back().size() == 1 && failure.empty())
      failure = fmt::format("pipeline rank {} has no records of its kernels", pipeline_rank);
  }
  if (!failure.empty()) return fmt::format("--trace: {}: {}", path, failure);
  try {
    std::vector<RankActivities> ranks;
    ranks.reserve(all.size());
    for (const auto& each : all) ranks.push_back(rank_activities(each));
    write_whole_file(path, to_trace_events(merge(std::move(ranks), schedule)) + '\n');
  } catch (const std::exception& error) {
    return fmt::format("--trace: {}: {}", path, error.what());
  }
  return "";
}

}  // namespace plumbline
