// Sizes of long tests under sanitizers.
#pragma once

namespace plumbline::test {

/// `all`, or `some` under AddressSanitizer: ten times slower there, and one access of a kind is enough.
constexpr int cases_here([[maybe_unused]] int all, [[maybe_unused]] int some) {
#if defined(__SANITIZE_ADDRESS__)
  return some;
#else
  return all;
#endif
}

}  // namespace plumbline::test
