// A backend behind the checks of its operators' arguments.
#pragma once

#include "kernels/checks/operator_checks.hpp"

namespace plumbline {

/// `Backend`, whose operators are only called with arguments that agree (operator_checks.hpp). Anything else
/// throws Error.
template <class Backend>
class Checked final : public Backend {
 public:
  using Backend::Backend;

#define PLUMBLINE_OPERATOR(type, name, parameters, arguments) \
  type name parameters override {                             \
    checks::name arguments;                                   \
    return Backend::name arguments;                           \
  }
#include "kernels/operator_list.inc"
};

}  // namespace plumbline
