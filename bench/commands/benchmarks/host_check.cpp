#include "bench/commands/benchmarks/host_check.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "bench/commands/benchmarks/bench_launch.hpp"
#include "bench/plan/collective_prediction.hpp"
#include "core/base/error.hpp"
#include "core/base/output_json.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline {
namespace {

constexpr double kFarOff = 0.3;
constexpr const char* kCheckedSize = "64M";
constexpr std::array<const char*, 6> kCheckedGroups = {"tp", "cp", "ep", "dp", "edp", "pp"};

/// True if every rank has a group of two members at least.
bool has_group(const Layout& layout, Group group) {
  for (int rank = 0; rank < layout.world(); ++rank) {
    if (layout.members(group, rank).size() < 2) return false;
  }
  return true;
}

bool far_off(const CollectiveRow& row) {
  return row.wrong > 0 || (row.predicted_s && std::abs(row.difference()) > kFarOff);
}

std::string line_of(const CollectiveRow& row) {
  const double predicted =
      row.predicted_s ? static_cast<double>(row.size) / *row.predicted_s * row.bus_factor * 1e-9 : 0;
  return fmt::format("{:<4} {:<12} {:>6} {:>7} {:>6}  {:<10} {:>12.3f} {:>12.3f} {:>+9.1f} {:>7}\n",
                     far_off(row) ? "!" : "ok", row.group, row.ranks, row.groups, row.nodes,
                     kind_of(row.call).name, row.bus_gb(), predicted,
                     row.predicted_s ? 100 * row.difference() : 0, row.wrong);
}

}  // namespace

int check_hosts(const HostCheck& check, bool quiet) {
  const RunConfig config = load_run_config(check.config, {});
  if (const auto reason = why_invalid(config)) throw InputError(*reason);
  const Layout layout = config.layout();
  BenchOptions options;
  options.config = check.config;
  options.sizes = kCheckedSize;
  options.backend = check.backend;
  options.hardware = check.hardware.empty() ? config.machine.hardware : check.hardware;
  options.launcher.hostfile = check.hostfile;
  const HardwareProfile hardware = bench_hardware(options);
  auto rows = nlohmann::ordered_json::array();
  bool good = true;
  int groups = 0;
  for (const char* name : kCheckedGroups) {
    const Group group = group_named(name);
    if (!has_group(layout, group)) continue;
    options.group = name;
    options.kinds = {"all-reduce", "all-gather"};
    if (group == Group::pipeline) options.kinds.emplace_back("send-receive");
    const Layout checked = checked_bench_layout(options);
    if (groups++ == 0 && !check.json) {
      fmt::print("{:<4} {:<12} {:>6} {:>7} {:>6}  {:<10} {:>12} {:>12} {:>9} {:>7}\n", "", "group", "ranks",
                 "groups", "hosts", "64 MiB", "busbw GB/s", "predicted", "time (%)", "#wrong");
    }
    const int code = launch_bench(
        options, checked,
        [&](CollectiveRow row) {
          row.predicted_s = predicted_seconds(row, group, layout, hardware);
          good = good && !far_off(row);
          if (check.json) {
            rows.push_back(to_json(row));
          } else {
            fmt::print("{}", line_of(row));
            std::fflush(stdout);
          }
        },
        quiet);
    good = good && code == 0;
  }
  if (groups == 0) {
    throw InputError(
        fmt::format("--config: found {} ranks without a group of two, expected parallel sizes "
                    "above 1; change them",
                    layout.world()));
  }
  if (check.json) fmt::print("{}\n", output_json(rows, 2));
  return static_cast<int>(good ? ExitCode::done : ExitCode::regressed);
}

}  // namespace plumbline
