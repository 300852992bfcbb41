#include "analysis/hardware/profiles/machine_constants.hpp"

#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr MachineConstant kConstants[] = {
    {"memory_bytes", &MemoryBytes::bytes},
    {"reserved_bytes", &MemoryBytes::reserved_bytes},
    {"context_bytes", &MemoryBytes::context_bytes},
    {"library_bytes", &MemoryBytes::library_bytes},
    {"kernel_bytes", &MemoryBytes::kernel_bytes},
    {"nccl_group_bytes", &MemoryBytes::nccl_group_bytes},
    {"nccl_channel_bytes", &MemoryBytes::nccl_channel_bytes},
    {"peak_16bit", &Device::peak_16bit},
    {"peak_8bit", &Device::peak_8bit},
    {"peak_mx8", &Device::peak_mx8},
    {"peak_4bit", &Device::peak_4bit},
    {"peak_fp32", &Device::peak_fp32},
    {"power_watts", &Device::power_watts},
    {"bandwidth", &Device::bandwidth},
    {"host_bandwidth", &Device::host_bandwidth},
    {"processors", &Device::processors},
    {"collective_processors", &Device::collective_processors},
    {"gemm_share", &Device::gemm_share},
    {"gemm_share_8bit", &Device::gemm_share_8bit},
    {"gemm_share_4bit", &Device::gemm_share_4bit},
    {"mx8_slowdown", &Device::mx8_slowdown},
    {"wave_share", &TileRates::wave_share},
    {"tile_s", &TileRates::tile_s},
    {"cache_bandwidth", &TileRates::cache_bandwidth},
    {"stream_share", &Device::stream_share},
    {"random_s", &Device::random_s},
    {"host_slowdown", &HostRates::slowdown},
    {"python_slowdown", &HostRates::python_slowdown},
    {"kernel_s", &Device::kernel_s},
    {"cudnn_forward_speedup", &AttentionRates::cudnn_forward_speedup},
    {"cudnn_backward_speedup", &AttentionRates::cudnn_backward_speedup},
    {"flash_forward", &AttentionRates::forward},
    {"flash_head_64", &AttentionRates::head_64},
    {"flash_8bit", &AttentionRates::eight_bit},
    {"flash_backward", &AttentionRates::backward},
    {"convolution_share", &ScanRates::convolution},
    {"recurrence_share", &ScanRates::recurrence},
    {"serving_product_s", &ServingRates::product_s},
    {"serving_product_share", &ServingRates::product_share},
    {"serving_product_peak", &ServingRates::product_peak},
    {"serving_attention_s", &ServingRates::attention_s},
    {"serving_attention_share", &ServingRates::attention_share},
    {"serving_experts_s", &ServingRates::experts_s},
    {"serving_experts_share", &ServingRates::experts_share},
    {"serving_experts_peak", &ServingRates::experts_peak},
    {"serving_reduce_s", &ServingRates::reduce_s},
    {"serving_reduce_bandwidth", &ServingRates::reduce_bandwidth},
    {"exchange_bandwidth", &Network::exchange_bandwidth},
    {"node_bandwidth", &Network::node_bandwidth},
    {"message_bandwidth", &Network::message_bandwidth},
    {"node_base_s", &Network::node_base_s},
    {"node_step_s", &Network::node_step_s},
    {"nic_bandwidth", &Network::nic_bandwidth},
    {"nic_base_s", &Network::nic_base_s},
    {"nic_step_s", &Network::nic_step_s},
    {"switch_reduction", &Network::switch_reduction},
};

double value_of(const JsonKeys& constant) {
  return constant.number("value", 0, 1e18);
}

// The part of a machine that a constant belongs to.
template <class M>
auto& part(M& machine, double Device::*) {
  return machine.device;
}
template <class M>
auto& part(M& machine, double MemoryBytes::*) {
  return machine.device.memory;
}
template <class M>
auto& part(M& machine, double AttentionRates::*) {
  return machine.device.attention;
}
template <class M>
auto& part(M& machine, double TileRates::*) {
  return machine.device.tiles;
}
template <class M>
auto& part(M& machine, double HostRates::*) {
  return machine.device.host;
}
template <class M>
auto& part(M& machine, double ScanRates::*) {
  return machine.device.scans;
}
template <class M>
auto& part(M& machine, double ServingRates::*) {
  return machine.device.serving;
}
template <class M>
auto& part(M& machine, double Network::*) {
  return machine.network;
}

}  // namespace

double& MachineConstant::in(Machine& machine) const {
  return std::visit([&](auto one) -> double& { return part(machine, one).*one; }, member);
}

double MachineConstant::in(const Machine& machine) const {
  return std::visit([&](auto one) { return part(machine, one).*one; }, member);
}

std::span<const MachineConstant> machine_constants() {
  return kConstants;
}

const MachineConstant* find_machine_constant(std::string_view name) {
  for (const MachineConstant& constant : kConstants) {
    if (constant.name == name) return &constant;
  }
  return nullptr;
}

bool set_network(Network& network, std::string_view name, const JsonKeys& constant) {
  const bool host = name == "gpus_per_host";
  if (host || name == "gpus_per_node") {
    (host ? network.gpus_per_host : network.gpus_per_node) =
        static_cast<int>(constant.integer("value", 1024));
    return true;
  }
  const MachineConstant* known = find_machine_constant(name);
  if (known == nullptr || !known->of_network()) return false;
  network.*std::get<double Network::*>(known->member) = value_of(constant);
  return true;
}

bool set_machine(Machine& machine, std::string_view name, const JsonKeys& constant) {
  if (set_network(machine.network, name, constant)) return true;
  const MachineConstant* known = find_machine_constant(name);
  if (known == nullptr) return false;
  known->in(machine) = value_of(constant);
  return true;
}

void check_machine(const Machine& machine, const std::string& place) {
  const Device& d = machine.device;
  const Network& n = machine.network;
  const bool usable = d.memory.bytes > 0 && d.peak_16bit > 0 && d.bandwidth > 0 && d.host_bandwidth > 0 &&
                      d.processors >= 1 && d.gemm_share > 0 && d.stream_share > 0 &&
                      d.tiles.cache_bandwidth > 0 && d.attention.forward > 0 && d.attention.backward > 0 &&
                      n.node_bandwidth > 0 && n.message_bandwidth > 0 && n.nic_bandwidth > 0 &&
                      n.nic_step_s > 0 && n.switch_reduction > 0;
  if (!usable) throw InputError(place + ": expected rates, shares and bandwidths greater than 0");
}

}  // namespace plumbline
