// Values of keys that a config.json leaves out.
#pragma once

#include "core/base/json_keys.hpp"
#include "core/config/families/families.hpp"

namespace plumbline {

/// Adds the keys that a file of a model of `family` leaves out, from defaults.json (transformers' classes);
/// sizes that a file must give are not among them. A null switch becomes false, as transformers reads it.
/// Throws InputError for a null without a meaning in transformers or plumbline. Families that transformers
/// does not have are left as they are. `keys`: of the object, for messages.
void add_family_defaults(const Family& family, const JsonKeys& keys, Json& object);

}  // namespace plumbline
