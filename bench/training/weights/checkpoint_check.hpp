// A checkpoint held against the model that it is to be the weights of, before any rank is started.
#pragma once

#include <string>
#include <vector>

#include "bench/training/parameters/parameters.hpp"
#include "core/config/finetune_config.hpp"
#include "core/config/model_config.hpp"
#include "core/files/safetensors.hpp"

namespace plumbline::training {

/// The tensor of that name, with the shape that the model expects and of floating point. Throws InputError:
/// missing, another shape, whole numbers.
const StoredTensor& checkpoint_tensor(const TensorFile& file, const std::string& name,
                                      const std::vector<std::int64_t>& shape);

/// Elements of the slice into `out`, rows `stride` apart. Throws InputError when one is not finite; `path`
/// names the file.
void read_slice(const StoredTensor& tensor, const std::string& path, const Slice& slice, float* out,
                std::int64_t stride);

/// The parameters of the whole model with its adapters, as a single rank holds them.
ParameterLayout whole_model(const ModelConfig& model, const FinetuneConfig& finetune = {});

/// Throws as checkpoint_tensor for every tensor of the model, and when embeddings are tied but the
/// checkpoint's lm_head differs from its embedding. Returns the names of unused tensors, without buffers that
/// hold nothing learnt (rotary frequencies, causal masks).
std::vector<std::string> unused_tensors(const ModelConfig& model, const TensorFile& file);
/// The same for a checkpoint of either format.
std::vector<std::string> unused_tensors(const ModelConfig& model, const std::string& path);

}  // namespace plumbline::training
