// Devices as CUDA names them, and the accelerators whose constants fit them.
#include "bench/measure/machine/accelerator_name.hpp"

#include <gtest/gtest.h>

namespace plumbline::accelerator_name_test {
namespace {

TEST(AcceleratorName, IsFoundByModelFormAndMemory) {
  struct Case {
    const char* device;
    std::int64_t mib;
    const char* accelerator;
  };
  constexpr Case kCases[] = {
      {"NVIDIA H200", 143'771, "h200-sxm-141gb"},
      {"NVIDIA H200 NVL", 143'771, "h200-nvl-141gb"},
      {"NVIDIA H100 80GB HBM3", 81'559, "h100-sxm-80gb"},
      {"NVIDIA A100-SXM4-40GB", 40'960, "a100-sxm-40gb"},
      {"NVIDIA A100 80GB PCIe", 81'920, "a100-pcie-80gb"},
      {"Tesla V100-SXM2-16GB", 16'384, "v100-sxm-16gb"},
      {"NVIDIA RTX PRO 6000 Blackwell Server Edition", 97'887, "rtx-pro-6000-96gb"},
      {"NVIDIA GeForce RTX 4090", 24'564, "rtx-4090-24gb"},
      {"NVIDIA RTX A6000", 49'140, "rtx-a6000-48gb"},
      {"NVIDIA L4", 23'034, "l4-24gb"},
      {"NVIDIA A10", 23'028, "a10-24gb"},
      {"NVIDIA GeForce RTX 3080", 10'240, ""},
      {"", 0, ""},
  };
  for (const Case& c : kCases) EXPECT_EQ(accelerator_of(c.device, kMiB * c.mib), c.accelerator) << c.device;
}

}  // namespace
}  // namespace plumbline::accelerator_name_test
