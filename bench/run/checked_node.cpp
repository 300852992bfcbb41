#include "bench/run/checked_node.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/cuda/cuda_backend.hpp"
#include "bench/measure/machine/machine_facts.hpp"
#include "bench/measure/machine/version.hpp"
#include "bench/measure/nodes/node_bench.hpp"
#include "bench/measure/nodes/node_facts.hpp"
#include "bench/processes/hosts/host_list.hpp"
#include "bench/processes/launch/rank_binding.hpp"
#include "bench/training/trainer/slowed_operators.hpp"
#include "core/backends/mpi/agreement.hpp"
#include "core/backends/mpi/session.hpp"
#include "core/base/error.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline {
namespace {

BenchedShape product_of(std::int64_t size, DType type) {
  BenchedShape shape;
  shape.type = type;
  shape.m = shape.n = shape.k = size;
  return shape;
}

}  // namespace

int run_as_checked_node(const NodeCheckRequest& request,
                        const std::function<void(const std::vector<NodeReport>&)>& on_reports) {
  const bool on_device = request.backend == Backend::cuda;
  if (on_device) become_cuda_program();
  bind_this_rank();
  int argc = 0;
  char** argv = nullptr;
  const MpiSession session(argc, argv);
  return session.guard([&] {
    require_same_on_all_ranks({{"version of plumbline", std::string(plumbline_version())},
                               {"--time-limit", fmt::format("{}", request.limit_s)},
                               {"--backend", on_device ? "cuda" : "cpu"}});
    NodeBenchOptions options;
    options.limit_s = request.limit_s;
    options.on_device = on_device;
    NodeReport own;
    own.rank = session.rank();
    own.host = this_host();
    own.health = health_of_host();
    std::vector<NodeReport> reports;
    if (on_device) {
      options.product = product_of(4096, DType::bf16);
      with_cuda_node(session.rank(), [&](Operators& operators, MemorySource& memory, const CudaNode& node) {
        own.device = node.device;
        options.look = node.look;
        reports = bench_nodes(operators, memory, own, options);
      });
    } else {
      options.product = product_of(256, DType::fp32);
      own.device = processor_name();
      const auto operators = make_cpu_operators();
      const auto memory = host_memory();
      training::SlowedOperators slowed(*operators, request.slow_factor);
      const bool slow = request.slow_rank == session.rank() && request.slow_factor > 1;
      reports = bench_nodes(slow ? slowed : *operators, *memory, own, options);
    }
    if (session.rank() != 0) return static_cast<int>(ExitCode::done);
    judge(reports, options.limits);
    on_reports(reports);
    const bool good =
        std::all_of(reports.begin(), reports.end(), [](const NodeReport& report) { return report.passed(); });
    return static_cast<int>(good ? ExitCode::done : ExitCode::regressed);
  });
}

}  // namespace plumbline
