#include "analysis/hardware/profiles/profiles.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "analysis/hardware/embedded.hpp"
#include "analysis/hardware/measured_machines.hpp"
#include "analysis/hardware/profiles/machine_constants.hpp"
#include "analysis/hardware/profiles/software_fields.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

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
      set_machine);
  for (const auto& [name, machine] : profiles.machines) {
    check_machine(machine, fmt::format("{}: machines.{}", origin, printable(name)));
  }
  read(file, "software", profiles.software, nothing, set_software);
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
