// Options of `plumbline bench`, read into a request.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "bench/measure/collectives/collective_bench.hpp"
#include "bench/processes/hosts/chosen_hosts.hpp"
#include "bench/show/views/benchmarks/collective_table.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

struct BenchOptions {
  std::string what = "collective";
  std::vector<std::string> kinds;  // empty: all-reduce, gemm
  std::string sizes = "8:16M:2";
  std::string type = "fp32";
  std::string group = "world";
  std::string config;
  std::vector<std::string> shapes;  // of operators: "m=512,n=512,k=512"
  std::string shape_file;
  int ranks = 0;  // 0: as the sizes or the hosts have it
  int tensor = 1, context = 1, pipeline = 1, expert = 1;
  std::string backend = "cpu";
  std::string hardware;
  bool registered = false;
  double limit_s = 0.5;
  LauncherOptions launcher;
  bool json = false, csv = false, nccl = false;
  std::string plot;
  bool rows = false;  // of the ranks that this command starts

  BenchFormat format() const;
};

void add_bench_options(CLI::App& command, const std::shared_ptr<BenchOptions>& options);

/// "8:8G:2": K, M and G are powers of 1024, as for nccl-tests; units of bytes are allowed too. A single size
/// is a list of one. Throws InputError.
BenchedSizes parse_sizes(const std::string& text);

/// Throws InputError for a name that is none.
Group group_named(const std::string& name);

/// Throws InputError for options that belong to the other benchmark.
void check_bench_options(const CLI::App& command, const BenchOptions& options);

/// Throws InputError. `asked`: ranks that there are, 0: any number.
BenchRequest bench_request(const BenchOptions& options);
Layout bench_layout(const BenchOptions& options, int asked);
Backend bench_backend(const BenchOptions& options);

}  // namespace plumbline
