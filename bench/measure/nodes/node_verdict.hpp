// PASS or FAIL of every rank, by comparison with the others and by facts.
#pragma once

#include <string>
#include <vector>

#include "bench/record/node_report.hpp"

namespace plumbline {

/// Shares by which a rank may be worse than the median rank.
struct NodeLimits {
  double product = 0.1;
  double copy = 0.25;    // of a host
  double message = 0.3;  // bandwidth of its best pair with another host; needs three hosts
  double celsius = 90;
};

/// Time over that of the median rank, the faster of two middle ones; 1 for a single rank.
std::vector<double> factors_of(const std::vector<double>& seconds);

/// Factors of hosts, each with the shortest time of its ranks: they share its memory. By rank; `hosts`: a
/// number for each rank's.
std::vector<double> host_factors_of(const std::vector<double>& seconds,
                                    const std::vector<std::size_t>& hosts);

/// True if a product or copy is beyond the limits.
bool any_slow(const std::vector<double>& products, const std::vector<double>& copies,
              const std::vector<std::size_t>& hosts, const NodeLimits& limits);

/// Fills factors, reasons and notes.
void judge(std::vector<NodeReport>& reports, const NodeLimits& limits);

/// Rank with the largest product factor; reports are not empty.
const NodeReport& slowest_rank(const std::vector<NodeReport>& reports);

/// Hosts whose ranks have all passed, in their order, as a hostfile: "NAME slots=N" a line.
std::string passing_hostfile(const std::vector<NodeReport>& reports);

}  // namespace plumbline
