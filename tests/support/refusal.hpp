// The words with which input is refused.
#pragma once

#include <string>

#include "core/base/error.hpp"

namespace plumbline::test {

/// Text of the InputError that `call` throws; "accepted" without one.
template <class Call>
std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace plumbline::test
