// Failures to inject into a run: `--inject-failures mtbf=30s,kinds=kill,hang,disk,seed=2`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/units.hpp"

namespace plumbline {

enum class Injected {
  kill,  // SIGKILL to a rank
  hang,  // SIGSTOP: the rank stays there and does nothing
  disk,  // the rank can write no file until a checkpoint has failed
};
std::string_view name_of(Injected kind);

struct FailureSpec {
  Seconds mtbf;  // mean time between two; they are independent and as likely at any time
  std::vector<Injected> kinds = {Injected::kill};  // as likely each
  std::uint64_t seed = 1;
  std::uint64_t most = UINT64_MAX;  // of them: the run is left alone after that
  Seconds replacement;       // from the end of all ranks until there is another one for the one that was lost
  Seconds hang_timeout{10};  // without a finished step or a restart getting on: the run hangs
};

/// Keys: mtbf (with ms, s, min or h), kinds, seed, most, replacement, hang_timeout. Throws InputError.
FailureSpec parse_failure_spec(const std::string& text);

}  // namespace plumbline
