// A Hugging Face checkpoint's tensors: names and fused ones by the table of families
// (core/config/families/tensor_names.hpp).
#pragma once

#include <string>
#include <vector>

#include "bench/convert/layout.hpp"

namespace plumbline::convert {

/// In model order. An output layer that is tied to the embedding has no tensor.
std::vector<TensorLayout> hugging_face_layout(const ModelConfig& model);

}  // namespace plumbline::convert
