// Names of checkpoints whose weights are quantized.
#pragma once

#include <string_view>

namespace plumbline {

/// The word of a checkpoint's name, or of its path's last part, that says how its weights are quantized:
/// "AWQ" of "TheBloke/Llama-2-7B-AWQ"; empty when it has none. Names follow the methods of transformers
/// (src/transformers/quantizers/auto.py) and the schemes of compressed-tensors (w4a16).
std::string_view quantization_word(std::string_view name);
/// Words that lose bits, without FP8, which Megatron-Core dequantizes when it loads a checkpoint.
std::string_view lossy_quantization_word(std::string_view name);

}  // namespace plumbline
