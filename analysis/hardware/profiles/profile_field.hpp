// Constants of profiles as their data files name them.
#pragma once

#include <cstddef>
#include <string_view>
#include <variant>

#include "core/base/json_keys.hpp"

namespace plumbline {

/// A constant by its name in the data files, and the member of T that holds it.
template <class T>
struct ProfileField {
  std::string_view name;
  std::variant<double T::*, bool T::*> member;
};

/// Sets the member that `name` stands for from `constant`'s "value"; false when none of the list has that
/// name. Throws InputError for a value of another type.
template <class T, std::size_t N>
bool set_field(const ProfileField<T> (&fields)[N], T& target, std::string_view name,
               const JsonKeys& constant) {
  for (const ProfileField<T>& field : fields) {
    if (name != field.name) continue;
    if (const auto* number = std::get_if<double T::*>(&field.member)) {
      target.** number = constant.number("value", 0, 1e18);
    } else {
      target.*std::get<bool T::*>(field.member) = constant.boolean("value");
    }
    return true;
  }
  return false;
}

}  // namespace plumbline
