// Construction of the CPU operators.
#include "kernels/cpu/cpu_backend.hpp"

#include <cstdlib>

#include "kernels/checks/checked.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#ifdef PLUMBLINE_OPENMP
#include <omp.h>
#endif

namespace plumbline {
namespace cpu {

CpuOperators::CpuOperators() {
  // oneDNN would take every core, and several ranks share a machine.
#ifdef PLUMBLINE_OPENMP
  if (std::getenv("OMP_NUM_THREADS") == nullptr) omp_set_num_threads(1);
#endif
}

void CpuOperators::synchronize() {}

float* CpuOperators::column_sums(std::int64_t count) {
  column_sums_.assign(static_cast<std::size_t>(count), 0.0F);
  return column_sums_.data();
}

}  // namespace cpu

std::unique_ptr<Operators> make_cpu_operators() {
  return std::make_unique<Checked<cpu::CpuOperators>>();
}

}  // namespace plumbline
