// Nodes of a job as `plumbline doctor --nodes` finds them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// A network port, by sysfs.
struct NicReport {
  std::string name;  // "mlx5_0 port 1", "eth0"
  double gbit = 0;   // rate of the link; 0: not told
  bool active = true;
  bool operator==(const NicReport&) const = default;
};

/// Messages with another rank, at best.
struct PairReport {
  int rank = 0;
  double latency_s = 0;  // one way, 8 bytes
  double bandwidth = 0;  // bytes per second, each way at once
};

/// State of a GPU, a processor and its memory, as far as it can be read; negative: it cannot.
struct NodeHealth {
  double celsius = -1;                                          // the hottest
  std::int64_t corrected_errors = -1, uncorrected_errors = -1;  // ECC, since the driver or host was started
  int pcie_generation = -1, pcie_width = -1, most_pcie_width = -1;  // GPU
  int nvlinks = -1;                                                 // active ones
  double sm_mhz = -1;                                               // GPU, under load
  std::vector<std::string> throttled;                               // NVML's reasons under load, in words
  std::vector<NicReport> nics;
};

/// One rank of a check; several of one host are its processors or GPUs.
struct NodeReport {
  int rank = 0;
  std::string host;
  std::string device;    // processor or GPU
  double product_s = 0;  // shortest time of a matrix product
  double product_flops = 0;
  double copy_s = 0;  // shortest time of a copy in memory
  double copy_bytes = 0;
  double clock = 0;  // multiplications per second of the processor
  std::vector<PairReport> pairs;
  NodeHealth health;
  // Verdict.
  double product_factor = 1, copy_factor = 1;  // time over that of the median rank
  std::vector<std::string> reasons;            // to fail; empty: passed
  std::vector<std::string> notes;

  bool passed() const { return reasons.empty(); }
};

nlohmann::ordered_json to_json(const NodeReport& report);
/// Reads what to_json() wrote. Throws InputError; `origin` names the source.
NodeReport parse_node_report(std::string_view json, const std::string& origin);

}  // namespace plumbline
