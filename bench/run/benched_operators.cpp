#include "bench/run/benched_operators.hpp"

#include "bench/cuda/cuda_backend.hpp"
#include "bench/measure/operators/benched_call.hpp"
#include "bench/measure/operators/cpu_timer.hpp"
#include "core/backends/mpi/session.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline {

void bench_operators(std::span<const BenchedShape> shapes, Backend backend, double limit_s,
                     const std::function<void(OperatorRow)>& on_row) {
  const auto bench = [&](Operators& operators, MemorySource& memory, OperatorTimer& timer) {
    for (const BenchedShape& shape : shapes) {
      const PreparedOperator prepared = prepare(shape, operators, memory);
      OperatorRow row;
      row.shape = shape;
      row.bytes = prepared.bytes;
      row.isolated = timer.isolated(prepared.run, limit_s / 2);
      row.batched = timer.batched(prepared.run, limit_s / 2);
      operators.synchronize();
      on_row(std::move(row));
    }
  };
  if (backend == Backend::cuda) {
    become_cuda_program();
    int argc = 0;
    char** argv = nullptr;
    const MpiSession session(argc, argv);
    return with_cuda_timer(bench);
  }
  const auto operators = make_cpu_operators();
  const auto memory = host_memory();
  CpuTimer timer;
  bench(*operators, *memory, timer);
}

}  // namespace plumbline
