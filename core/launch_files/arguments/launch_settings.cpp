#include "core/launch_files/arguments/launch_settings.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace plumbline {

void LaunchFile::require_modelled() const {
  if (refused.empty()) return;
  const LaunchRemark& first = refused.front();
  throw InputError(
      fmt::format("{}: {}: {}; remove it{}", first.place, first.name, first.reason,
                  refused.size() == 1
                      ? ""
                      : fmt::format(" ({} more: plumbline explain-config lists them)", refused.size() - 1)));
}

}  // namespace plumbline
