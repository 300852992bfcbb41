#include "core/launch_files/arguments/key_names.hpp"

#include <algorithm>
#include <vector>

namespace plumbline {

void KeyNames::add(const std::string& written, const std::string& read) {
  if (written != read) written_[read] = written;
}

void KeyNames::rename(LaunchArgument& argument, const std::string& read) {
  add(argument.name, read);
  argument.name = read;
}

BesideFile KeyNames::as_read(const BesideFile& beside) const {
  BesideFile other = beside;
  for (const auto& [read, written] : written_)
    if (beside.ignores(written)) other.ignored.insert(BesideFile::plain_name(read));
  return other;
}

void KeyNames::restore(LaunchFile& file, const BesideFile& beside) const {
  file.beside = beside;
  for (std::vector<LaunchRemark>* const remarks : {&file.without_effect, &file.approximated, &file.refused})
    for (LaunchRemark& each : *remarks)
      if (const auto found = written_.find(each.name); found != written_.end()) each.name = found->second;
  for (std::string& note : file.notes) {
    const std::size_t colon = std::min(note.find(": "), note.size());
    if (const auto found = written_.find(note.substr(0, colon)); found != written_.end())
      note = found->second + note.substr(colon);
  }
  for (LaunchSetting& each : file.settings) {
    const std::size_t colon = each.origin.rfind(": ");
    if (colon == std::string::npos) continue;
    if (const auto found = written_.find(each.origin.substr(colon + 2)); found != written_.end())
      each.origin = each.origin.substr(0, colon + 2) + found->second;
  }
}

void append_remarks(LaunchFile& file, const LaunchFile& more) {
  const auto append = [](std::vector<LaunchRemark>& to, const std::vector<LaunchRemark>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(file.without_effect, more.without_effect);
  append(file.approximated, more.approximated);
  append(file.refused, more.refused);
  file.faults.insert(file.faults.end(), more.faults.begin(), more.faults.end());
}

}  // namespace plumbline
