#include "bench/run/benched_rank.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/cuda/cuda_backend.hpp"
#include "bench/measure/machine/version.hpp"
#include "bench/processes/launch/rank_binding.hpp"
#include "core/backends/mpi/agreement.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/backends/mpi/session.hpp"
#include "core/base/error.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline {
namespace {

/// Words that ranks of other hosts must have been given alike.
RankFacts facts_of(const BenchRequest& request, const Layout& layout) {
  std::string calls;
  for (const BenchedCall call : request.calls) calls += std::string(kind_of(call).option) + " ";
  return {
      {"version of plumbline", std::string(plumbline_version())},
      {"benchmarks", calls},
      {"--group", std::string(name_of(request.group))},
      {"sizes", fmt::format("{}:{}:{}", request.sizes.smallest, request.sizes.largest, request.sizes.factor)},
      {"ranks", fmt::format("{} x {} x {}", layout.tensor, layout.data, layout.pipeline)}};
}

bool sends_messages(const BenchRequest& request) {
  return std::any_of(request.calls.begin(), request.calls.end(),
                     [](BenchedCall call) { return kind_of(call).between_pairs; });
}

}  // namespace

void check_bench(const BenchRequest& request, const Layout& layout, Backend backend) {
  const std::string_view name = name_of(request.group);
  for (int rank = 0; rank < layout.world(); ++rank) {
    const auto members = static_cast<int>(layout.members(request.group, rank).size());
    if (members < 2) {
      throw InputError(fmt::format(
          "--group: found {}, {} of {} ranks, expected 2 ranks at least on every rank; change the sizes or "
          "--ranks",
          name, members, layout.world()));
    }
    for (const BenchedCall call : request.calls) {
      if (kind_of(call).is_osu() && members % 2 != 0) {
        throw InputError(fmt::format("{}: found a group of {} ranks, expected pairs; change --ranks",
                                     kind_of(call).option, members));
      }
    }
  }
  const bool pipeline = request.group == Group::pipeline || layout.pipeline == layout.world();
  if (backend == Backend::cuda && sends_messages(request) && !pipeline) {
    throw InputError(fmt::format(
        "--group: found {} for messages on backend cuda, expected pp, or world without sizes; change it",
        name));
  }
}

int run_as_benched_rank(const BenchRequest& request, const Layout& layout, Backend backend, bool registered,
                        const std::function<void(const CollectiveRow&)>& on_row) {
  if (backend == Backend::cuda) become_cuda_program();
  bind_this_rank();
  int argc = 0;
  char** argv = nullptr;
  const MpiSession session(argc, argv);
  return session.guard([&] {
    check_bench(request, layout, backend);
    require_same_on_all_ranks(facts_of(request, layout));
    MpiCommunicator control(layout);
    std::int64_t wrong = 0;
    if (backend == Backend::cuda) {
      with_cuda_messages(layout, control, {sends_messages(request), registered},
                         [&](Communicator& communicator, Operators& operators, MemorySource& memory) {
                           wrong = bench_collectives(communicator, operators, memory, request, on_row);
                         });
    } else {
      const auto operators = make_cpu_operators();
      const auto memory = host_memory();
      wrong = bench_collectives(control, *operators, *memory, request, on_row);
    }
    return static_cast<int>(wrong == 0 ? ExitCode::done : ExitCode::regressed);
  });
}

}  // namespace plumbline
