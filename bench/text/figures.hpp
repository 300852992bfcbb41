// Times and ratios as people read them; bytes: core/base/byte_text.hpp.
#pragma once

#include <string>

namespace plumbline {

/// "12.5 us", "3.42 ms", "1.702 s".
std::string readable_time(double seconds);
/// A relative difference: "+1.3 %".
std::string readable_percent(double fraction);
/// The least of 1, 2, 5, 10, 20, … times a power of ten that is not below `least`: steps of an axis.
double round_step(double least);

}  // namespace plumbline
