// Values of keys that a config.json leaves out.
#pragma once

#include "core/base/json_keys.hpp"
#include "core/config/families/families.hpp"

namespace plumbline {

/// Adds the keys that the file of a model of `family` leaves out, as defaults.json has them from transformers' classes;
/// sizes that a file must say are not among them. A null switch becomes false, as transformers reads it. Throws
/// InputError for a null where neither transformers nor plumbline has a meaning for it. Families that transformers does
/// not have are left as they are. `keys`: of the object, for messages.
void add_family_defaults(const Family& family, const JsonKeys& keys, Json& object);

}  // namespace plumbline
