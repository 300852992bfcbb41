// A checkpoint held against the model that it is to be the weights of, before any rank is started.
#pragma once

#include <string>
#include <vector>

#include "core/config/model_config.hpp"
#include "core/files/safetensors.hpp"

namespace plumbline::training {

/// The tensor of that name, with the shape that the model expects and of floating point. Throws InputError:
/// missing, another shape, whole numbers.
const StoredTensor& checkpoint_tensor(const TensorFile& file, const std::string& name,
                                      const std::vector<std::int64_t>& shape);

/// Throws as checkpoint_tensor for every tensor of the model, and when embeddings are tied but the
/// checkpoint's lm_head differs from its embedding. Returns the names of unused tensors, without buffers that
/// hold nothing learnt (rotary frequencies, causal masks).
std::vector<std::string> unused_tensors(const ModelConfig& model, const TensorFile& file);
/// The same for a checkpoint of either format.
std::vector<std::string> unused_tensors(const ModelConfig& model, const std::string& path);

}  // namespace plumbline::training
