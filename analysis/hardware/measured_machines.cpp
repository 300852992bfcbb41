#include "analysis/hardware/measured_machines.hpp"

#include <array>
#include <memory>
#include <utility>

#include "analysis/hardware/product_rates.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kGb300 = "gb300-nvl72";

/// Machines whose steps take collectives within a host from the tables, and attention where it says so.
constexpr std::pair<const char*, bool> kMeasured[] = {{"h100-sxm-80gb", true},
                                                      {"h200-sxm-141gb", false},
                                                      {"b300-sxm-270gb", true},
                                                      {"gb200-nvl72", true},
                                                      {"gb300-nvl72", true}};

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

auto attention_model(const Device& device) {
  return [device](double head, double window) {
    return [device, head, window](std::span<const double> size) {  // batch, heads, group, sequence
      return flash_seconds(device, size[0] * size[1], size[3], head, false, false, window) /
             device.attention.cudnn_forward_speedup;
    };
  };
}

auto attention_backward_model(const Device& device) {
  return [device](double head, double window) {
    return [device, head, window](std::span<const double> size) {  // heads, sequence
      return flash_seconds(device, size[0], size[1], head, true, false, window) /
             device.attention.cudnn_backward_speedup;
    };
  };
}

silicon::SecondsOfPoint collective_model(const Network& network, silicon::Collective operation) {
  return [network, operation](std::span<const double> size) {
    const Span span{static_cast<int>(size[0]), 1};
    switch (operation) {
      case silicon::Collective::all_reduce:
        return all_reduce_seconds(network, span, size[1]);
      case silicon::Collective::alltoall:
        return all_to_all_seconds(network, span, size[1]);
      case silicon::Collective::all_gather:
      case silicon::Collective::reduce_scatter:
        break;
    }
    return scatter_seconds(network, span, size[1]);
  };
}

}  // namespace

void set_measured(std::map<std::string, Machine, std::less<>>& machines) {
  for (const auto& [name, attention] : kMeasured) {
    Machine& machine = machines.at(name);
    silicon::StepTables tables;
    tables.accelerator = name;
    if (attention) tables.attention = attention_model(machine.device);
    if (name == kGb300) {
      set_gb300_products(machine.device, tables);
      tables.attention_backward = attention_backward_model(machine.device);
    }
    tables.collectives = [network = machine.network](silicon::Collective operation) {
      return collective_model(network, operation);
    };
    machine.device.measured = std::make_shared<const silicon::MeasuredOperators>(std::move(tables));
  }
}

}  // namespace plumbline
