// Model of a checkpoint.
#pragma once

#include <string>

#include "core/config/model_config.hpp"

namespace plumbline::convert {

/// A model and its config.json as text.
struct NamedModel {
  ModelConfig model;
  std::string config;
};

/// Model of `named` (a preset, a config.json or its folder), or, where it is empty, of the config.json in
/// `folder`. Throws InputError when there is none, or it cannot be read.
NamedModel model_of(const std::string& folder, const std::string& named);

}  // namespace plumbline::convert
