#include "core/config/distillation_keys.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/config/config_key_kinds.hpp"
#include "core/schedule/schedule_traits.hpp"

namespace plumbline {
namespace {

/// The schedules that run a teacher's forwards.
constexpr KeyNames<4> kSchedules = [] {
  KeyNames<4> names;
  std::size_t count = 0;
  for (const ScheduleTraits& traits : kScheduleTraits) {
    if (traits.teacher) names.at(count++) = traits.name;
  }
  return names;
}();
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
  ConfigKey key = integer_key(name, "", &RunConfig::distillation_cache_limit, 0, kMaxCached);
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
  return {
      {"teacher", "", std::string(kModelExpected) + ", or none",
       [](ConfigDraft& draft, const ConfigText& value) {
         draft.config.teacher.reset();
         if (value.text != "none") draft.config.teacher = model_value(value, "teacher");
       },
       [](const RunConfig& config) {
         if (!config.teacher) return std::string("none");
         return config.teacher->name == "inline" ? to_config_json(*config.teacher) : config.teacher->name;
       }},
      text_key("teacher_weights", &C::teacher_weights, PathOr::path,
               "the folder of a Hugging Face checkpoint"),
      choice_key("distillation_schedule", &C::distillation_schedule, kSchedules),
      number_key("distillation_temperature", &C::distillation_temperature, 1e-3, 1e3),
      choice_key("distillation_kl", &C::distillation_kl, kDivergences),
      number_key("distillation_lm_weight", &C::distillation_lm_weight, 0, 1),
      choice_key("distillation_loss", &C::distillation_loss, kLosses),
      choice_key("distillation_cache", &C::distillation_cache, kCaches),
      choice_key("distillation_cache_dtype", &C::distillation_cache_dtype, kCacheDTypes),
      cache_limit_key(),
      text_key("loss_mask", &C::loss_mask, PathOr::path, "a file with one byte 0 or 1 per token of data"),
  };
}

std::optional<std::string> why_distillation_invalid(const RunConfig& config) {
  const std::string& schedule = config.pipeline_schedule;
  if (!config.teacher) {
    if (schedule_traits(schedule).teacher) {
      return fmt::format(
          "pipeline_schedule: found {}, which orders a teacher; expected teacher: and distillation_schedule: "
          "{}",
          schedule, schedule);
    }
    return std::nullopt;
  }
  const ModelConfig& teacher = *config.teacher;
  const ModelConfig& student = config.model;
  const std::int64_t t = config.tensor_model_parallel_size;
  if (teacher.vocab != student.vocab) {
    return fmt::format(
        "teacher: {} has a vocabulary of {}, expected the {} of {}: the two outputs are compared",
        teacher.name, teacher.vocab, student.vocab, student.name);
  }
  if (teacher.layers < config.pipeline_model_parallel_size) {
    return fmt::format(
        "pipeline_model_parallel_size: {} stages, expected at most the {} layers of the teacher {}: every "
        "stage holds one",
        config.pipeline_model_parallel_size, teacher.layers, teacher.name);
  }
  if (schedule != RunConfig{}.pipeline_schedule || config.virtual_pipeline_chunks != 1) {
    return fmt::format(
        "pipeline_schedule: found {} with {} chunks beside a teacher, expected 1f1b with 1: the order is "
        "that "
        "of distillation_schedule",
        schedule, config.virtual_pipeline_chunks);
  }
  if (!config.cross_entropy_loss_fusion) {
    return "cross_entropy_loss_fusion: found false beside a teacher, expected true; distillation_loss: "
           "unfused "
           "is what eager code does there";
  }
  if (config.splits_vocabulary()) {
    return fmt::format("vocab_parallel: found {} beside a teacher, expected none",
                       vocab_parallel_name(config.vocab_parallel));
  }
  if (auto reason = why_tensor_split_invalid(teacher, t)) return reason;
  if (teacher.positions == Positions::learned && config.seq_length > teacher.max_positions) {
    return fmt::format("seq_length: found {}, expected at most the {} learned positions of the teacher {}",
                       config.seq_length, teacher.max_positions, teacher.name);
  }
  if (config.distillation_loss == DistillationLoss::unfused && t > 1) {
    return fmt::format(
        "distillation_loss: found unfused with tensor_model_parallel_size {}, expected fused: the separate "
        "tensors are those of one rank",
        t);
  }
  if (config.distillation_loss == DistillationLoss::unfused &&
      config.distillation_kl == DistillationKl::reverse) {
    return "distillation_loss: found unfused with distillation_kl reverse, expected fused or forward";
  }
  return std::nullopt;
}

}  // namespace plumbline
