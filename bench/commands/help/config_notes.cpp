#include "bench/commands/help/config_notes.hpp"

#include <algorithm>

#include "bench/commands/help/help_files.hpp"

namespace plumbline {

const std::vector<Described>& config_notes() {
  static const std::vector<Described> kNotes = [] {
    std::vector<Described> notes = read_described(embedded_text(help_files(), "keys.md"));
    for (Described& note : read_described(embedded_text(help_files(), "reinforcement_keys.md")))
      notes.push_back(std::move(note));
    return notes;
  }();
  return kNotes;
}

const Described* find_config_note(std::string_view key) {
  const auto& notes = config_notes();
  const auto found =
      std::find_if(notes.begin(), notes.end(), [key](const Described& note) { return note.name == key; });
  return found == notes.end() ? nullptr : &*found;
}

}  // namespace plumbline
