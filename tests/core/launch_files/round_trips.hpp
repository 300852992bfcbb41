// Number of configurations that go out as a launch file and come back.
#pragma once

namespace plumbline {

#ifdef PLUMBLINE_SANITIZED
constexpr int kRoundTrips = 200;  // ten times slower
#else
constexpr int kRoundTrips = 2000;
#endif

}  // namespace plumbline
