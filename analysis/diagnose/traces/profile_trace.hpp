// Activities of one rank as a profiler wrote them down: operators of the host, kernels of the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

enum class SliceKind : std::uint8_t {
  op,          // an operator of PyTorch on the host
  annotation,  // record_function, steps of the profiler
  runtime,     // a call of CUDA's or HIP's runtime
  garbage,     // a run of Python's garbage collector
  kernel,
  copy,     // by the device
  fill,     // by the device
  own,      // a slice of plumbline's own traces
  waiting,  // the exposed part of such a slice
};

/// Device work: kernels, copies and fills.
constexpr bool on_device(SliceKind kind) {
  return kind == SliceKind::kernel || kind == SliceKind::copy || kind == SliceKind::fill;
}

/// One slice of a timeline. Times in nanoseconds on the rank's clock.
struct TracedSlice {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t correlation = -1;  // joins a kernel to the call that launched it; -1: none
  std::uint32_t name = 0;         // index of a text
  std::uint32_t shapes = 0;       // sizes of its inputs, as text; index of a text
  std::uint32_t category = 0;     // the trace's own; index of a text
  std::int32_t lane = 0;          // index into ProfileTrace::lanes
  std::int32_t message = -1;      // index into ProfileTrace::messages; -1: none
  SliceKind kind = SliceKind::op;
};

/// Arguments of a collective or a message, as PyTorch records them. Texts are indices.
struct TracedMessage {
  std::uint32_t collective = 0;
  std::uint32_t group = 0;
  std::uint32_t description = 0;
  std::uint32_t ranks = 0;
  std::uint32_t dtype = 0;
  std::int64_t elements_in = 0;
  std::int64_t elements_out = 0;
  std::int64_t group_size = 0;
};

/// A thread of the host or a stream of the device.
struct TraceLane {
  std::string process;
  std::string thread;
  std::string title;  // name of the thread, where the trace has one
  bool device = false;
};

struct ProfileTrace {
  std::string origin;        // the file, printable
  int rank = -1;             // -1: the trace does not say
  int world_size = 0;        // 0: the trace does not say
  std::int64_t own_end = 0;  // end of the step of a trace by plumbline, which begins at 0; 0: another
  std::string device;        // name of the first device; empty: none
  std::shared_ptr<const std::vector<std::string>> texts;  // of all ranks of a file; the first is empty
  std::shared_ptr<const std::vector<TraceLane>> lanes;
  std::vector<TracedMessage> messages;
  std::vector<TracedSlice> slices;  // in order of begin
  std::int64_t skipped = 0;         // slices without a time, or with a negative one

  std::string_view name(const TracedSlice& slice) const { return text(slice.name); }
  std::string_view text(std::uint32_t index) const { return (*texts)[index]; }
  const TraceLane& lane(const TracedSlice& slice) const {
    return (*lanes)[static_cast<std::size_t>(slice.lane)];
  }
  bool has_device() const;
};

}  // namespace plumbline
