#include "analysis/hardware/logs/log_sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::pair<LogOperation, std::string_view>, 10> kLogNames = {
    {{LogOperation::unknown, "unknown"},
     {LogOperation::all_reduce, "all-reduce"},
     {LogOperation::all_gather, "all-gather"},
     {LogOperation::reduce_scatter, "reduce-scatter"},
     {LogOperation::all_to_all, "all-to-all"},
     {LogOperation::broadcast, "broadcast"},
     {LogOperation::reduce, "reduce"},
     {LogOperation::ring, "send-receive"},
     {LogOperation::message, "latency"},
     {LogOperation::stream, "bandwidth"}}};

}  // namespace

std::string_view name_of(LogOperation operation) {
  return kLogNames[static_cast<std::size_t>(operation)].second;
}

LogOperation log_operation_named(std::string_view name) {
  for (const auto& [operation, known] : kLogNames) {
    if (known == name && operation != LogOperation::unknown) return operation;
  }
  throw InputError(
      fmt::format("--collective: found {}, expected all-reduce, all-gather, reduce-scatter, "
                  "all-to-all, broadcast, reduce, send-receive, latency or bandwidth",
                  printable(name)));
}

double bus_factor_of(LogOperation operation, int ranks) {
  const double n = std::max(ranks, 1);
  switch (operation) {
    case LogOperation::all_reduce:
      return 2 * (n - 1) / n;
    case LogOperation::all_gather:
    case LogOperation::reduce_scatter:
    case LogOperation::all_to_all:
      return (n - 1) / n;
    default:
      return 1;
  }
}

}  // namespace plumbline
