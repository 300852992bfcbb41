#include "analysis/hardware/profiles.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "analysis/hardware/embedded.hpp"
#include "analysis/hardware/measured_machines.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/text_input.hpp"
#include "core/schedule/schedule_traits.hpp"

namespace plumbline {
namespace {

template <class T, class Member>
struct Field {
  const char* name;
  Member T::*member;
};

constexpr Field<Device, double> kDevice[] = {
    {"memory_bytes", &Device::memory_bytes},
    {"reserved_bytes", &Device::reserved_bytes},
    {"context_bytes", &Device::context_bytes},
    {"library_bytes", &Device::library_bytes},
    {"kernel_bytes", &Device::kernel_bytes},
    {"nccl_group_bytes", &Device::nccl_group_bytes},
    {"nccl_channel_bytes", &Device::nccl_channel_bytes},
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
    {"wave_share", &Device::wave_share},
    {"tile_s", &Device::tile_s},
    {"cache_bandwidth", &Device::cache_bandwidth},
    {"stream_share", &Device::stream_share},
    {"random_s", &Device::random_s},
    {"host_slowdown", &Device::host_slowdown},
    {"python_slowdown", &Device::python_slowdown},
    {"kernel_s", &Device::kernel_s},
    {"cudnn_forward_speedup", &Device::cudnn_forward_speedup},
    {"cudnn_backward_speedup", &Device::cudnn_backward_speedup},
    {"flash_forward", &Device::flash_forward},
    {"flash_head_64", &Device::flash_head_64},
    {"flash_8bit", &Device::flash_8bit},
    {"flash_backward", &Device::flash_backward},
};
constexpr Field<Network, double> kNetwork[] = {
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
constexpr Field<Software, double> kSoftware[] = {
    {"gradient_bytes", &Software::gradient_bytes},
    {"weight_gradient_bytes", &Software::weight_gradient_bytes},
    {"optimizer_bytes", &Software::optimizer_bytes},
    {"bucket_elements", &Software::bucket_elements},
    {"state_bytes", &Software::state_bytes},
    {"optimizer_state_bytes", &Software::optimizer_state_bytes},
    {"step_bytes", &Software::step_bytes},
    {"reduce_buffer_bytes", &Software::reduce_buffer_bytes},
    {"allocator_share", &Software::allocator_share},
    {"workspace_bytes", &Software::workspace_bytes},
    {"host_operator_s", &Software::host_operator_s},
    {"graph_operator_s", &Software::graph_operator_s},
    {"layer_forward_operators", &Software::layer_forward_operators},
    {"layer_backward_operators", &Software::layer_backward_operators},
    {"loss_passes", &Software::loss_passes},
    {"loss_backward_passes", &Software::loss_backward_passes},
    {"expert_product_s", &Software::expert_product_s},
    {"router_operators", &Software::router_operators},
    {"dispatch_operators", &Software::dispatch_operators},
    {"message_s", &Software::message_s},
    {"collective_slowdown", &Software::collective_slowdown},
    {"interlaced_slowdown", &Software::interlaced_slowdown},
    {"vocabulary_pass_s", &Software::vocabulary_pass_s},
    {"micro_batch_s", &Software::micro_batch_s},
    {"step_s", &Software::step_s},
    {"update_operators", &Software::update_operators},
    {"slice_parameters", &Software::slice_parameters},
    {"step_reductions", &Software::step_reductions},
    {"gathered_numbers", &Software::gathered_numbers},
    {"flash_forward_share", &Software::flash_forward_share},
    {"flash_backward_share", &Software::flash_backward_share},
    {"norm_passes", &Software::norm_passes},
    {"logit_bytes", &Software::logit_bytes},
    {"kept_logit_bytes", &Software::kept_logit_bytes},
    {"logit_gradient_bytes", &Software::logit_gradient_bytes},
};
constexpr Field<Software, bool> kSwitches[] = {
    {"own_step", &Software::own_step},
    {"flash_attention", &Software::flash_attention},
    {"dropout", &Software::dropout},
    {"attention_dropout", &Software::attention_dropout},
    {"fused_dropout", &Software::fused_dropout},
    {"compiled", &Software::compiled},
    {"fused_weight_gradient", &Software::fused_weight_gradient},
    {"fused_bias_gradient", &Software::fused_bias_gradient},
    {"fused_residual_norm", &Software::fused_residual_norm},
    {"overlapped_messages", &Software::overlapped_messages},
    {"overlapped_interleaved", &Software::overlapped_interleaved},
    {"scattered_messages", &Software::scattered_messages},
    {"overlapped_reduction", &Software::overlapped_reduction},
    {"sharded", &Software::sharded},
    {"gathers_in_place", &Software::gathers_in_place},
    {"async_tensor", &Software::async_tensor},
    {"selective_operators", &Software::selective_operators},
    {"llama_module", &Software::llama_module},
    {"eight_bit", &Software::fp8},
    {"fused_casts", &Software::fused_casts},
    {"fp8_gather", &Software::fp8_gather},
    {"delayed_scaling", &Software::delayed_scaling},
    {"tensorwise_scaling", &Software::tensorwise_scaling},
    {"blockwise_scaling", &Software::blockwise_scaling},
    {"fp8_param_gather", &Software::fp8_param_gather},
    {"cudnn_attention", &Software::cudnn_attention},
    {"mxfp8_scaling", &Software::mxfp8_scaling},
    {"nvfp4_scaling", &Software::nvfp4_scaling},
    {"clears_gradients", &Software::clears_gradients},
    {"scaled_gradients", &Software::scaled_gradients},
    {"overlapped_gather", &Software::overlapped_gather},
    {"alltoall_dispatch", &Software::alltoall_dispatch},
    {"flex_dispatch", &Software::flex_dispatch},
    {"hybrid_dispatch", &Software::hybrid_dispatch},
    {"plain_permutation", &Software::plain_permutation},
    {"fp32_router", &Software::fp32_router},
    {"fp32_latent_router", &Software::fp32_latent_router},
    {"weighted_results", &Software::weighted_results},
    {"saves_by_name", &Software::saves_by_name},
    {"recomputes_attention", &Software::recomputes_attention},
    {"recomputes_projection", &Software::recomputes_projection},
    {"recomputes_fc1", &Software::recomputes_fc1},
};

/// Sets the member that the constant's name stands for; false when none of the list has that name.
template <class Target, class Member, std::size_t N>
bool set(const Field<Target, Member> (&fields)[N], Target& target, const std::string& name,
         const JsonKeys& constant) {
  for (const auto& field : fields) {
    if (name != field.name) continue;
    if constexpr (std::is_same_v<Member, bool>) {
      target.*field.member = constant.boolean("value");
    } else {
      target.*field.member = constant.number("value", 0, 1e18);
    }
    return true;
  }
  return false;
}

/// The profiles of one kind. One may continue another of its kind: `like` names it. Every constant is
/// {"value": …, "source": "…"}. `begin`: reads the other keys of an entry, before its constants.
template <class T, class Begin, class Set>
void read(const JsonKeys& file, const char* kind, std::map<std::string, T, std::less<>>& into, Begin&& begin,
          Set&& set_one) {
  const auto profiles = file.members(kind);
  if (profiles.size() > 1000) file.fail(kind, "expected 1000 profiles at most");
  while (into.size() < profiles.size()) {
    const std::size_t before = into.size();
    for (const auto& [name, entry] : profiles) {
      if (into.count(name) != 0) continue;
      T profile;
      if (entry.find("like") != nullptr) {
        const auto base = into.find(entry.string("like"));
        if (base == into.end()) continue;
        profile = base->second;
      }
      begin(profile, entry);
      for (const auto& [key, constant] : entry.members("constants")) {
        if (constant.string("source").empty()) constant.refuse("source", "a text that is not empty");
        if (!set_one(profile, key, constant)) constant.fail("", "expected a known constant");
      }
      into.emplace(name, std::move(profile));
    }
    if (into.size() == before)
      file.fail(kind, "expected every \"like\" to name a profile of this file, without a cycle");
  }
}

bool set_network(Network& network, const std::string& key, const JsonKeys& constant) {
  const bool host = key == "gpus_per_host";
  if (!host && key != "gpus_per_node") return set(kNetwork, network, key, constant);
  (host ? network.gpus_per_host : network.gpus_per_node) = static_cast<int>(constant.integer("value", 1024));
  return true;
}

/// Up to three of `names` for another one: with its first word, undated ones first; else the nearest.
std::vector<std::string_view> likely(std::string_view name, const std::vector<std::string_view>& names) {
  constexpr std::size_t kMost = 3;
  std::string word(name.substr(0, name.find('-')));
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::vector<std::string_view> found;
  for (const bool dated : {false, true}) {
    for (const std::string_view each : names) {
      const bool has_year = each.find("-20") != std::string_view::npos;
      if (!word.empty() && each.starts_with(word) && has_year == dated && found.size() < kMost)
        found.push_back(each);
    }
  }
  return found.empty() ? std::vector{nearest_name(name, names)} : found;
}

template <class T>
const T& find(const std::map<std::string, T, std::less<>>& profiles, std::string_view name,
              const char* kind) {
  const auto found = profiles.find(name);
  if (found != profiles.end()) return found->second;
  std::vector<std::string_view> names;
  names.reserve(profiles.size());
  for (const auto& [known, profile] : profiles) names.push_back(known);
  throw InputError(fmt::format("{}: found {}, expected one of {}; write {}", kind,
                               printable(std::string(name)), fmt::join(names, ", "),
                               fmt::join(likely(name, names), " or ")));
}

}  // namespace

const Machine& Profiles::machine(std::string_view name) const {
  return find(machines, name, "hardware");
}
const Software& Profiles::generation(std::string_view name) const {
  return find(software, name, "software");
}

const std::vector<MachineConstant>& machine_constants() {
  static const std::vector<MachineConstant> kConstants = [] {
    std::vector<MachineConstant> constants;
    constants.reserve(std::size(kDevice) + std::size(kNetwork));
    for (const auto& field : kDevice) constants.push_back({field.name, field.member, nullptr});
    for (const auto& field : kNetwork) constants.push_back({field.name, nullptr, field.member});
    return constants;
  }();
  return kConstants;
}

void check_machine(const Machine& machine, const std::string& place) {
  const Device& d = machine.device;
  const Network& n = machine.network;
  const bool usable = d.memory_bytes > 0 && d.peak_16bit > 0 && d.bandwidth > 0 && d.host_bandwidth > 0 &&
                      d.processors >= 1 && d.gemm_share > 0 && d.stream_share > 0 && d.cache_bandwidth > 0 &&
                      d.flash_forward > 0 && d.flash_backward > 0 && n.node_bandwidth > 0 &&
                      n.message_bandwidth > 0 && n.nic_bandwidth > 0 && n.nic_step_s > 0 &&
                      n.switch_reduction > 0;
  if (!usable) throw InputError(place + ": expected rates, shares and bandwidths greater than 0");
}

Profiles parse_profiles(std::string_view text, const std::string& origin) {
  const Json root = parse_json_object(text, origin);
  const JsonKeys file(root, origin, JsonNull::refused);
  Profiles profiles;
  const auto nothing = [](auto&, const JsonKeys&) {};
  if (file.find("networks") != nullptr) read(file, "networks", profiles.networks, nothing, set_network);
  read(
      file, "machines", profiles.machines,
      [&](Machine& machine, const JsonKeys& entry) {
        if (entry.find("network") == nullptr) return;
        const auto network = profiles.networks.find(entry.string("network"));
        if (network == profiles.networks.end()) entry.refuse("network", "the name of one of the networks");
        machine.network = network->second;
      },
      [](Machine& machine, const std::string& key, const JsonKeys& constant) {
        return set(kDevice, machine.device, key, constant) || set_network(machine.network, key, constant);
      });
  for (const auto& [name, machine] : profiles.machines) {
    check_machine(machine, fmt::format("{}: machines.{}", origin, printable(name)));
  }
  read(file, "software", profiles.software, nothing,
       [](Software& software, const std::string& key, const JsonKeys& constant) {
         if (key == "schedules") {
           software.schedules = constant.strings("value", known_schedules().size());
           for (const std::string& name : software.schedules) {
             if (find_schedule_traits(name) == nullptr)
               constant.refuse("value", "names of pipeline schedules");
           }
           return true;
         }
         return set(kSoftware, software, key, constant) || set(kSwitches, software, key, constant);
       });
  return profiles;
}

const Profiles& built_in_profiles() {
  static const Profiles kProfiles = [] {
    Json together = {
        {"networks", Json::object()}, {"machines", Json::object()}, {"software", Json::object()}};
    for (const char* name : {"networks.json", "nvidia.json", "amd.json", "software.json"}) {
      const Json file = parse_json_object(embedded_text(analysis_files(), name), name);
      for (const auto& [kind, entries] : file.items()) {
        for (const auto& [key, entry] : entries.items()) {
          if (together[kind].contains(key))
            throw InputError(fmt::format("{}: {}: found twice, expected once", name, key));
          together[kind][key] = entry;
        }
      }
    }
    Profiles profiles = parse_profiles(together.dump(), "analysis/hardware");
    for (auto& [name, rates] :
         parse_kernel_rates(embedded_text(analysis_files(), "kernel_rates"), "kernel_rates.csv")) {
      profiles.machines.at(name).device.rates = std::make_shared<const KernelRates>(std::move(rates));
    }
    set_measured(profiles.machines);
    return profiles;
  }();
  return kProfiles;
}

}  // namespace plumbline
