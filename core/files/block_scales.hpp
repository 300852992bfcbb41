// FP8 matrices with a factor for every block of elements, as DeepSeek-V3 is published (DeepSeek-AI 2024,
// arXiv:2412.19437 §3.3; deepseek-ai/DeepSeek-V3, README_WEIGHTS.md): beside "X.weight" in E4M3 stands
// "X.weight_scale_inv" in fp32, of ceil(rows / 128) x ceil(columns / 128) factors.
#pragma once

#include <map>
#include <string>

#include "core/files/stored_tensor.hpp"

namespace plumbline {

/// Gives each FP8 matrix its factors, whose own entries are removed. Throws InputError, naming `file`, for
/// factors of another type or shape, or of no FP8 matrix.
void attach_block_scales(const std::string& file, std::map<std::string, StoredTensor>& tensors);

}  // namespace plumbline
