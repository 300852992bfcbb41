#include "analysis/hardware/measured_machines.hpp"

#include <array>
#include <memory>
#include <utility>

#include "analysis/hardware/product_rates.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kGb300 = "gb300-nvl72";

/// Clock of a GB300 over a GB200's at their power limits: the root of the watts that are not fixed, as in
/// gemm_share of gb300-nvl72.
const silicon::SustainedClocks kGb200 = {"gb200-nvl72", 1.10};

/// Measured products: bf16 and FP8 sustained as on GB200. Those in NVFP4 stay at burst clocks: its units for
/// them are half as many again.
void set_gb300_products(const Device& device, silicon::StepTables& tables) {
  const auto product = [&](const char* type, const silicon::SustainedClocks& clocks) {
    return silicon::StepTables::Product{silicon::product_model(device, type), clocks};
  };
  tables.products = {product("bf16", kGb200), product("fp8", kGb200), product("nvfp4", {})};
  tables.casts = [device](std::span<const double> size) {
    return stream_seconds(device, 3 * size[0] * size[1]);
  };
}

silicon::StepTables with_attention(const std::string& name, const Device& device) {
  silicon::StepTables tables;
  tables.accelerator = name;
  tables.attention = [device](double head, double window) {
    return [device, head, window](std::span<const double> size) {  // batch, heads, group, sequence
      return flash_seconds(device, size[0] * size[1], size[3], head, false, false, window) /
             device.cudnn_forward_speedup;
    };
  };
  return tables;
}

}  // namespace

void set_measured(std::map<std::string, Machine, std::less<>>& machines) {
  for (const char* name : {"h100-sxm-80gb", "b300-sxm-270gb", "gb200-nvl72", "gb300-nvl72"}) {
    Device& device = machines.at(name).device;
    silicon::StepTables tables = with_attention(name, device);
    if (std::string_view(name) == kGb300) set_gb300_products(device, tables);
    device.measured = std::make_shared<const silicon::MeasuredOperators>(std::move(tables));
  }
}

}  // namespace plumbline
