#include "core/launch_files/arguments/launch_settings.hpp"

#include <fmt/format.h>

#include <string_view>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kUnknown = "unknown to";

}  // namespace

void LaunchFile::require_modelled() const {
  if (refused.empty()) return;
  const LaunchRemark& first = refused.front();
  throw InputError(
      fmt::format("{}: {}: {}; {}{}", first.place, first.name, first.reason,
                  first.is_default                     ? "set another value"
                  : first.reason.starts_with(kUnknown) ? "correct or remove it"
                                                       : "remove it",
                  refused.size() == 1
                      ? ""
                      : fmt::format(" ({} more: plumbline explain-config lists them)", refused.size() - 1)));
}

}  // namespace plumbline
