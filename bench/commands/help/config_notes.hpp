// Meaning of each configuration key in the manual (keys.md, reinforcement_keys.md).
// core/config_text/config_keys.hpp has the spelling and the values of each key.
#pragma once

#include <string_view>
#include <vector>

#include "bench/commands/help/described.hpp"

namespace plumbline {

/// The name is the key, the section the heading in the manual; the meaning is without a full stop. A test
/// holds that every key of config_keys() has a note.
const std::vector<Described>& config_notes();
/// nullptr when there is none.
const Described* find_config_note(std::string_view key);

}  // namespace plumbline
