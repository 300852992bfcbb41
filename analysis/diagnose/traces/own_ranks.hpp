// Ranks of a trace that plumbline wrote itself.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analysis/diagnose/traces/profile_trace.hpp"

namespace plumbline {

/// One trace per rank of the measured process, of the only process where none is called measured. Tracks of
/// a rank are named "rank N ...". `processes`: names by process id. Throws InputError when no track is a
/// rank's.
std::vector<ProfileTrace> own_ranks(ProfileTrace trace, const std::map<std::string, std::string>& processes);

}  // namespace plumbline
