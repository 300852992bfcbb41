#include "core/config_text/topic_keys.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/config_text/config_key_kinds.hpp"
#include "core/schedule/schedule_traits.hpp"

namespace plumbline {
namespace {

/// The schedules that run a teacher's forwards.
std::vector<std::string_view> teacher_schedules() {
  std::vector<std::string_view> names;
  for (const ScheduleTraits& traits : known_schedules()) {
    if (traits.teacher) names.push_back(traits.name);
  }
  return names;
}
constexpr KeyNames<2> kDivergences = {"forward", "reverse"};
constexpr KeyNames<2> kLosses = {"fused", "unfused"};
constexpr KeyNames<2> kCaches = {"logits", "hidden"};
constexpr KeyNames<2> kCacheDTypes = {"same", "fp32"};
constexpr std::int64_t kMaxCached = 1'000'000;

ConfigKey cache_limit_key() {
  const std::string name = "distillation_cache_limit";
  const std::string expected =
      fmt::format("a whole number from 1 to {}, or 0 for as many teacher outputs as the memory budget allows",
                  kMaxCached);
  ConfigKey key =
      integer_key(name, "", at(&RunConfig::distillation, &DistillationConfig::cache_limit), 0, kMaxCached);
  key.expected = expected;
  key.parse = [=, parse = key.parse](ConfigDraft& draft, const ConfigText& value) {
    try {
      parse(draft, value);
    } catch (const InputError&) {
      refuse_value(value, name, expected);
    }
  };
  return key;
}

}  // namespace

std::vector<ConfigKey> distillation_keys() {
  using C = RunConfig;
  std::vector<ConfigKey> keys = {
      {"teacher", "", std::string(kModelExpected) + ", or none",
       [](ConfigDraft& draft, const ConfigText& value) {
         draft.config.distillation.teacher.reset();
         if (value.text != "none") draft.config.distillation.teacher = model_value(value, "teacher");
       },
       [](const RunConfig& config) {
         if (!config.distillation.teacher) return std::string("none");
         return config.distillation.teacher->name == "inline" ? to_config_json(*config.distillation.teacher)
                                                              : config.distillation.teacher->name;
       }},
      text_key("teacher_weights", at(&C::distillation, &DistillationConfig::teacher_weights), PathOr::path,
               "the folder of a Hugging Face checkpoint"),
      choice_key("distillation_schedule", at(&C::distillation, &DistillationConfig::schedule),
                 teacher_schedules()),
      number_key("distillation_temperature", at(&C::distillation, &DistillationConfig::temperature), 1e-3,
                 1e3),
      choice_key("distillation_kl", at(&C::distillation, &DistillationConfig::kl), kDivergences),
      number_key("distillation_lm_weight", at(&C::distillation, &DistillationConfig::lm_weight), 0, 1),
      choice_key("distillation_loss", at(&C::distillation, &DistillationConfig::loss), kLosses),
      choice_key("distillation_cache", at(&C::distillation, &DistillationConfig::cache), kCaches),
      choice_key("distillation_cache_dtype", at(&C::distillation, &DistillationConfig::cache_dtype),
                 kCacheDTypes),
      cache_limit_key(),
      text_key("loss_mask", at(&C::files, &FilesConfig::loss_mask), PathOr::path,
               "a file with one byte 0 or 1 per token of data"),
  };
  for (ConfigKey& key : keys) key.only_with_teacher = key.name != "teacher" && key.name != "loss_mask";
  return keys;
}

}  // namespace plumbline
