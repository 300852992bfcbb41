#include "analysis/hardware/product_rates.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace plumbline::silicon {

TypeRate rate_of(const Device& device, const std::string& type) {
  TypeRate rate{0, 2};
  if (type == "bf16") {
    rate = {device.peak_16bit * device.gemm_share, 2};
  } else if (type == "fp8" || type == "fp8_block") {
    const bool scaled_units = type == "fp8_block" && device.peak_mx8 > 0;
    rate = {(scaled_units ? device.peak_mx8 : device.peak_8bit) * device.gemm_share_8bit, 1};
  } else if (type == "nvfp4") {
    rate = {device.peak_4bit * device.gemm_share_4bit, 0.5};
  } else {
    throw InputError(fmt::format("type: found {}, expected bf16, fp8, fp8_block or nvfp4", type));
  }
  if (rate.flops_per_s <= 0)
    throw InputError(fmt::format("type: found {}, expected a type with GEMMs on this accelerator", type));
  return rate;
}

double quantized_bytes(const std::string& type) {
  if (type == "bf16") return 0;
  return type == "fp8" ? 5 : type == "nvfp4" ? 2.5 : 3;
}

ProductModel product_model(const Device& device, const std::string& type) {
  const TypeRate rate = rate_of(device, type);
  const double kernels = type == "bf16" ? 1 : type == "fp8" ? 3 : 2;
  return {kernels * device.kernel_s, rate.flops_per_s, device.bandwidth * device.stream_share,
          rate.operand_bytes, quantized_bytes(type)};
}

}  // namespace plumbline::silicon
