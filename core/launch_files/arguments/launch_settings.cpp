#include "core/launch_files/arguments/launch_settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kUnknown = "unknown to";
constexpr std::size_t kMostTold = 12;

std::string told(const LaunchRemark& refused) {
  return fmt::format("{}: {}: {}", refused.place, refused.name, refused.reason);
}

std::string option(const LaunchRemark& refused) {
  return fmt::format("--ignore {}",
                     refused.name.substr(std::min(refused.name.find_first_not_of('-'), refused.name.size())));
}

std::string way_out(const LaunchRemark& refused) {
  if (refused.is_default) return "set another value";
  return fmt::format("{} it, or leave it out with {}",
                     refused.reason.starts_with(kUnknown) ? "correct or remove" : "remove", option(refused));
}

}  // namespace

void LaunchFile::require_modelled() const {
  std::vector<std::string> all;
  for (const std::string& fault : faults) {
    const std::string_view found = std::string_view(fault).substr(0, fault.find(", "));
    const auto same = [&](const std::string& each) { return each.starts_with(found); };
    if (std::none_of(all.begin(), all.end(), same)) all.push_back(fault);
  }
  const LaunchRemark* last = nullptr;
  for (const LaunchRemark& each : refused) {
    all.push_back(told(each));
    if (!each.is_default || last == nullptr) last = &each;
  }
  if (all.empty()) return;
  const std::size_t more = all.size() - std::min(all.size(), kMostTold);
  all.resize(all.size() - more);
  std::string line = fmt::format("{}", fmt::join(all, "; "));
  if (more > 0) line += fmt::format("; and {} more, which plumbline explain-config lists", more);
  if (refused.size() == 1) {
    line += "; " + way_out(*last);
  } else if (last != nullptr) {
    line += fmt::format("; remove them, or leave each out as with {}", option(*last));
  }
  throw InputError(line);
}

void LaunchFile::require_ignored(const std::string& name) const {
  for (const std::string& ignored : beside.ignored) {
    const bool found =
        std::any_of(without_effect.begin(), without_effect.end(), [&](const LaunchRemark& each) {
          return each.reason == kIgnored && BesideFile::plain_name(each.name) == ignored;
        });
    if (!found)
      throw InputError(fmt::format("--ignore: found {}, expected an argument of {}; remove the option",
                                   printable(ignored), name));
  }
}

}  // namespace plumbline
