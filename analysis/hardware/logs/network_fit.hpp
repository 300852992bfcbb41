// Constants of a network from measured sweeps of collectives and messages.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/logs/benchmark_log.hpp"
#include "analysis/hardware/network.hpp"

namespace plumbline {

/// One sweep beside the model: medians over sizes of 1 MiB and more of |model ÷ measured - 1|.
struct FittedSweep {
  LogSweep sweep;
  std::optional<double> latency_s{};      // of its small sizes
  std::optional<double> bus_bandwidth{};  // of its large ones, bytes/s
  std::optional<double> error_before{};   // with the constants that were there
  std::optional<double> error_after{};
};

/// A constant that sweeps determine, by its name in a file.
struct FittedConstant {
  std::string name;
  double value = 0;
  std::string source;
};

struct NetworkFit {
  Network network;
  std::vector<FittedConstant> constants;
  std::vector<FittedSweep> sweeps;
};

/// Seconds of a sweep's call by the network's constants (network.hpp).
double model_seconds(const Network& network, const LogSweep& sweep, double bytes);

/// Constants with which the model gives the latency of small sizes and the rate of large ones, medians over
/// sweeps; others stay those of `network`. Hosts that share a fast link are one node, as `network` has it.
/// Collectives go before messages, messages before perftest's streams. Sweeps are complete().
NetworkFit fit_network(const Network& network, const std::vector<LogSweep>& sweeps);

/// A file for `hardware:` (accelerator_file.hpp): accelerator `like` with the fitted constants.
std::string accelerator_file_of(const NetworkFit& fit, const std::string& name, const std::string& like);

/// A calibrated profile whose messages and collectives are the sweeps' own curves; operators stay. Throws
/// InputError when no sweep is an all-reduce, all-gather, reduce-scatter or latency.
HardwareProfile with_measured_messages(HardwareProfile profile, const std::vector<LogSweep>& sweeps);

}  // namespace plumbline
