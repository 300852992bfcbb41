#include "analysis/hardware/profiles.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "analysis/hardware/embedded.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline::cluster {
namespace {

using Json = nlohmann::json;

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
    {"peak_fp32", &Device::peak_fp32},
    {"bandwidth", &Device::bandwidth},
    {"processors", &Device::processors},
    {"gemm_share", &Device::gemm_share},
    {"gemm_share_8bit", &Device::gemm_share_8bit},
    {"wave_share", &Device::wave_share},
    {"tile_s", &Device::tile_s},
    {"cache_bandwidth", &Device::cache_bandwidth},
    {"stream_share", &Device::stream_share},
    {"random_s", &Device::random_s},
    {"kernel_s", &Device::kernel_s},
    {"flash_forward", &Device::flash_forward},
    {"flash_backward", &Device::flash_backward},
};
constexpr Field<Network, double> kNetwork[] = {
    {"node_bandwidth", &Network::node_bandwidth}, {"message_bandwidth", &Network::message_bandwidth},
    {"node_base_s", &Network::node_base_s},       {"node_step_s", &Network::node_step_s},
    {"nic_bandwidth", &Network::nic_bandwidth},   {"nic_base_s", &Network::nic_base_s},
    {"nic_step_s", &Network::nic_step_s},         {"switch_reduction", &Network::switch_reduction},
};
constexpr Field<Software, double> kSoftware[] = {
    {"gradient_bytes", &Software::gradient_bytes},
    {"weight_gradient_bytes", &Software::weight_gradient_bytes},
    {"optimizer_bytes", &Software::optimizer_bytes},
    {"state_bytes", &Software::state_bytes},
    {"optimizer_state_bytes", &Software::optimizer_state_bytes},
    {"host_operator_s", &Software::host_operator_s},
    {"layer_forward_operators", &Software::layer_forward_operators},
    {"layer_backward_operators", &Software::layer_backward_operators},
    {"loss_passes", &Software::loss_passes},
    {"loss_backward_passes", &Software::loss_backward_passes},
    {"message_s", &Software::message_s},
    {"collective_slowdown", &Software::collective_slowdown},
    {"interlaced_slowdown", &Software::interlaced_slowdown},
    {"vocabulary_pass_s", &Software::vocabulary_pass_s},
    {"micro_batch_s", &Software::micro_batch_s},
    {"step_s", &Software::step_s},
    {"norm_passes", &Software::norm_passes},
};
constexpr Field<Software, bool> kSwitches[] = {
    {"flash_attention", &Software::flash_attention},
    {"dropout", &Software::dropout},
    {"fused_dropout", &Software::fused_dropout},
    {"compiled", &Software::compiled},
    {"fused_weight_gradient", &Software::fused_weight_gradient},
    {"overlapped_messages", &Software::overlapped_messages},
    {"scattered_messages", &Software::scattered_messages},
    {"overlapped_reduction", &Software::overlapped_reduction},
    {"sharded", &Software::sharded},
    {"async_tensor", &Software::async_tensor},
    {"selective_operators", &Software::selective_operators},
    {"eight_bit", &Software::eight_bit},
};

[[noreturn]] void fail(const std::string& origin, const std::string& where, const std::string& expected) {
  throw InputError(fmt::format("{}: {}: expected {}; fix the file", origin, where, expected));
}

/// The value of one constant: {"value": …, "source": "…"}.
const Json& value_of(const Json& entry, const std::string& origin, const std::string& where) {
  if (!entry.is_object() || !entry.contains("value") || !entry.contains("source") ||
      !entry["source"].is_string() || entry["source"].get_ref<const std::string&>().empty()) {
    fail(origin, where, R"(an object with "value" and a "source" that is not empty)");
  }
  return entry["value"];
}

template <class Target, class Member, std::size_t N>
bool set(const Field<Target, Member> (&fields)[N], Target& target, const std::string& name, const Json& value,
         const std::string& origin, const std::string& where) {
  for (const auto& field : fields) {
    if (name != field.name) continue;
    if constexpr (std::is_same_v<Member, bool>) {
      if (!value.is_boolean()) fail(origin, where, "true or false");
      target.*field.member = value.get<bool>();
    } else {
      const double number = value.is_number() ? value.get<double>() : -1;
      if (!(number >= 0 && number <= 1e18)) fail(origin, where, "a number from 0 to 1e18");
      target.*field.member = static_cast<Member>(number);
    }
    return true;
  }
  return false;
}

const Json& section(const Json& root, const char* name, const std::string& origin) {
  if (!root.is_object() || !root.contains(name) || !root[name].is_object()) fail(origin, name, "an object");
  return root[name];
}

/// Profiles may continue another one of the file: `like` names it.
template <class T, class Set>
void read(const Json& list, std::map<std::string, T, std::less<>>& into, const std::string& origin,
          Set&& set_one) {
  if (list.size() > 1000) fail(origin, "profiles", "at most 1000 of a kind");
  for (int round = 0; into.size() < list.size(); ++round) {
    const std::size_t before = into.size();
    for (const auto& [name, entry] : list.items()) {
      const std::string where = printable(name);
      if (into.count(name) != 0) continue;
      if (!entry.is_object()) fail(origin, where, "an object");
      T profile;
      if (entry.contains("like")) {
        if (!entry["like"].is_string()) fail(origin, where + ".like", "a name");
        const auto base = into.find(entry["like"].template get<std::string>());
        if (base == into.end()) continue;
        profile = base->second;
      }
      if (!entry.contains("constants") || !entry["constants"].is_object())
        fail(origin, where, "\"constants\"");
      for (const auto& [key, constant] : entry["constants"].items()) {
        const std::string place = where + "." + printable(key);
        if (!set_one(profile, key, value_of(constant, origin, place), place)) {
          fail(origin, place, "a known constant");
        }
      }
      into.emplace(name, std::move(profile));
    }
    if (into.size() == before) fail(origin, "like", "names of this file, without circles");
  }
}

template <class T>
const T& find(const std::map<std::string, T, std::less<>>& profiles, std::string_view name,
              const char* kind) {
  const auto found = profiles.find(name);
  if (found != profiles.end()) return found->second;
  std::string names;
  for (const auto& [known, profile] : profiles) names += (names.empty() ? "" : ", ") + known;
  throw InputError(fmt::format("hardware: no {} \"{}\" is known; choose one of: {}", kind,
                               printable(std::string(name)), names));
}

}  // namespace

const Machine& Profiles::machine(std::string_view name) const {
  return find(machines, name, "cluster of accelerators");
}
const Software& Profiles::generation(std::string_view name) const {
  return find(software, name, "software generation");
}

Profiles parse_profiles(std::string_view text, const std::string& origin) {
  const Json root = Json::parse(text.begin(), text.end(), nullptr, false);
  if (root.is_discarded()) fail(origin, "file", "JSON");
  Profiles profiles;
  read(section(root, "machines", origin), profiles.machines, origin,
       [&](Machine& machine, const std::string& key, const Json& value, const std::string& where) {
         if (key == "gpus_per_node") {
           if (!value.is_number_integer() || value < 1 || value > 1024) fail(origin, where, "1 to 1024");
           machine.network.gpus_per_node = value.get<int>();
           return true;
         }
         return set(kDevice, machine.device, key, value, origin, where) ||
                set(kNetwork, machine.network, key, value, origin, where);
       });
  for (const auto& [name, machine] : profiles.machines) {
    const Device& d = machine.device;
    const Network& n = machine.network;
    const bool usable = d.memory_bytes > 0 && d.peak_16bit > 0 && d.bandwidth > 0 && d.processors >= 1 &&
                        d.gemm_share > 0 && d.stream_share > 0 && d.cache_bandwidth > 0 &&
                        d.flash_forward > 0 && d.flash_backward > 0 && n.node_bandwidth > 0 &&
                        n.message_bandwidth > 0 && n.nic_bandwidth > 0 && n.nic_step_s > 0 &&
                        n.switch_reduction > 0;
    if (!usable) fail(origin, printable(name), "rates, shares and bandwidths greater than 0");
  }
  read(section(root, "software", origin), profiles.software, origin,
       [&](Software& software, const std::string& key, const Json& value, const std::string& where) {
         return set(kSoftware, software, key, value, origin, where) ||
                set(kSwitches, software, key, value, origin, where);
       });
  return profiles;
}

const Profiles& built_in_profiles() {
  static const Profiles kProfiles =
      parse_profiles(embedded_text(analysis_files(), "clusters.json"), "clusters.json");
  return kProfiles;
}

}  // namespace plumbline::cluster
