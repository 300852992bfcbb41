// The model families that can be trained, and what transformers calls their classes.
#pragma once

#include <array>
#include <string_view>

namespace plumbline {

struct ModelClass {
  std::string_view architecture;  // model_type of a config.json
  std::string_view name;          // entry of its architectures
};

inline constexpr std::array<ModelClass, 4> kModelClasses = {{{"llama", "LlamaForCausalLM"},
                                                             {"mistral", "MistralForCausalLM"},
                                                             {"qwen2", "Qwen2ForCausalLM"},
                                                             {"gpt2", "GPT2LMHeadModel"}}};

}  // namespace plumbline
