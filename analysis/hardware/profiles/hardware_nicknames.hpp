// Short names of accelerators: h100, H200, mi300.
#pragma once

#include <string>
#include <vector>

namespace plumbline {

struct HardwareNickname {
  std::string preset;               // the accelerator meant; empty: none, or several
  std::vector<std::string> others;  // further presets that the name fits
};

/// Presets whose words ("h100", "sxm", "80gb") include those of `name`, in any case. Of several the usual
/// one, if there is one: h100 is the SXM card. A preset's own name is no nickname.
HardwareNickname hardware_nickname(const std::string& name);

}  // namespace plumbline
