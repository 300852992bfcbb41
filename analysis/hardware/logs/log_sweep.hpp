// One table of a log of network benchmarks, as plain data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// Operation of a sweep; `message`: time of one message, `stream`: rate of many of one direction.
enum class LogOperation {
  unknown,
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  reduce,
  ring,  // every rank sends to the next (nccl-tests' sendrecv)
  message,
  stream
};
std::string_view name_of(LogOperation operation);
/// Throws InputError: "--collective: found …".
LogOperation log_operation_named(std::string_view name);

/// One line: `bytes` as nccl-tests count them (the gathered output, the scattered input, all that a rank
/// sends to all).
struct LogPoint {
  double bytes = 0;
  double seconds = 0;
};

/// One table of a log.
struct LogSweep {
  std::string tool;  // "nccl-tests", "rccl-tests", "osu", "perftest"
  LogOperation operation = LogOperation::unknown;
  int ranks = 0;  // 0: the log does not say
  int nodes = 0;
  bool in_place = false;
  std::string device{};  // "NVIDIA H100 80GB HBM3"; empty: not said
  std::vector<LogPoint> points{};
  double bus_factor = 0;     // printed bus bandwidth ÷ algorithm bandwidth; 0: not printed
  bool of_one_peer = false;  // sizes are what a rank sends to each other one (OSU), until complete()
};

/// Bus bandwidth ÷ algorithm bandwidth of an operation over `ranks` (nccl-tests, doc/PERFORMANCE.md).
double bus_factor_of(LogOperation operation, int ranks);

}  // namespace plumbline
