#include "analysis/published/leave_one_out.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "analysis/published/dialect/row_cells.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr std::array<double, 5> kFactors = {0.90, 0.95, 1.0, 1.05, 1.10};
constexpr std::size_t kUnchanged = 2;
constexpr std::size_t kConstantsChosen = 6;

void scale(Machine& machine, std::size_t constant, double factor) {
  Device& device = machine.device;
  Network& network = machine.network;
  switch (constant) {
    case 0:
      device.gemm_share = std::min(1.0, device.gemm_share * factor);
      device.gemm_share_8bit = std::min(1.0, device.gemm_share_8bit * factor);
      break;
    case 1:
      device.stream_share = std::min(1.0, device.stream_share * factor);
      break;
    case 2:
      device.attention.forward *= factor;
      device.attention.backward *= factor;
      break;
    case 3:
      device.random_s *= factor;
      break;
    case 4:
      network.node_bandwidth *= factor;
      break;
    default:
      network.message_bandwidth *= factor;
      network.nic_bandwidth *= factor;
      break;
  }
}

std::vector<double> errors_with(const std::vector<PublishedTable>& tables, const Profiles& profiles,
                                const ScheduleMakers& make, const std::vector<double>& factors) {
  Profiles changed = profiles;
  for (auto& [name, machine] : changed.machines) {
    for (std::size_t i = 0; i < factors.size(); ++i) scale(machine, i, factors[i]);
  }
  std::vector<double> errors;
  errors.reserve(tables.size());
  for (const PublishedTable& table : tables) {
    errors.push_back(errors_of(compare_table(table, changed, make).rows, "step_s").mape);
  }
  return errors;
}

}  // namespace

const std::vector<std::string>& calibratable_constants() {
  static const std::vector<std::string> kNames = {
      "gemm_share", "stream_share", "flash", "random_s", "node_bandwidth", "message and nic bandwidth"};
  return kNames;
}

std::vector<LeftOut> leave_one_out(const std::vector<PublishedTable>& tables, const Profiles& profiles,
                                   const ScheduleMakers& make,
                                   const std::function<void(int done, int all)>& progress) {
  std::vector<PublishedTable> timed;
  for (const PublishedTable& table : tables) {
    // A table without a step that could be read has no error, not one of 0.
    if (holds_runs(table) && errors_of(compare_table(table, profiles, make).rows, "step_s").rows > 0) {
      timed.push_back(table);
    }
  }
  if (timed.size() < 2) {
    throw InputError(fmt::format(
        "--leave-one-out: found {} tables with step times, expected at least two: one is left out, "
        "constants are chosen on the others",
        timed.size()));
  }
  const std::vector<double> unchanged(kConstantsChosen, 1.0);
  const std::vector<double> shipped = errors_with(timed, profiles, make, unchanged);
  // errors[constant][factor][table]
  std::vector<std::vector<std::vector<double>>> errors(kConstantsChosen);
  for (std::size_t constant = 0; constant < kConstantsChosen; ++constant) {
    for (std::size_t factor = 0; factor < kFactors.size(); ++factor) {
      if (progress) {
        progress(static_cast<int>(constant * kFactors.size() + factor),
                 static_cast<int>(kConstantsChosen * kFactors.size()));
      }
      std::vector<double> factors = unchanged;
      factors[constant] = kFactors[factor];
      errors[constant].push_back(factor == kUnchanged ? shipped
                                                      : errors_with(timed, profiles, make, factors));
    }
  }
  std::vector<LeftOut> result;
  for (std::size_t out = 0; out < timed.size(); ++out) {
    LeftOut left{timed[out].name, shipped[out], 0, unchanged};
    for (std::size_t constant = 0; constant < kConstantsChosen; ++constant) {
      double best = 1e300;
      for (std::size_t factor = 0; factor < kFactors.size(); ++factor) {
        double others = 0;
        for (std::size_t table = 0; table < timed.size(); ++table) {
          if (table != out) others += errors[constant][factor][table];
        }
        if (others < best) {
          best = others;
          left.factors[constant] = kFactors[factor];
        }
      }
    }
    left.chosen = errors_with({timed[out]}, profiles, make, left.factors).front();
    result.push_back(std::move(left));
  }
  return result;
}

}  // namespace plumbline
