// Settings and remarks that a launch file is expected to give.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline::test {

/// Each key has its value, the last one counts; "nothing": the file does not set it.
inline void expect_settings(const LaunchFile& file, const std::map<std::string, std::string>& wanted) {
  std::map<std::string, std::string> settings;
  for (const LaunchSetting& each : file.settings) settings[each.key] = each.value;
  for (const auto& [key, value] : wanted) {
    const auto found = settings.find(key);
    EXPECT_EQ(found == settings.end() ? "nothing" : found->second, value) << key;
  }
}

inline bool names(const std::vector<LaunchRemark>& remarks, const std::string& name) {
  return std::any_of(remarks.begin(), remarks.end(),
                     [&](const LaunchRemark& each) { return each.name == name; });
}

}  // namespace plumbline::test
