// What each configuration key means, in the words of the manual. core/config/config_keys.hpp knows how a key
// is spelled and what values it takes; this table says what for.
#pragma once

#include <string_view>
#include <vector>

namespace plumbline {

struct ConfigNote {
  std::string_view key;
  std::string_view group;    // heading in the manual
  std::string_view meaning;  // without a full stop
};

/// In the order of the manual; a test holds that every key of config_keys() has a note.
const std::vector<ConfigNote>& config_notes();
/// nullptr when there is none.
const ConfigNote* find_config_note(std::string_view key);

}  // namespace plumbline
