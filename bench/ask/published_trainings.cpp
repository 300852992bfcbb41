#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/ask/size_answer.hpp"
#include "core/base/embedded_file.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {

/// trainings.json, embedded by bench/CMakeLists.txt.
std::span<const EmbeddedFile> training_files();

namespace {

SizeAsked question_of(const OrderedJsonKeys& row) {
  SizeAsked asked;
  asked.config = asked_config(row);
  take_choices(asked);
  asked.tokens = parse_tokens(row.string("tokens"), "tokens");
  asked.fixed = row.boolean_or("fixed", false);
  asked.job = usual_job(row.string_or("fleet", "llama3-405b"));
  return asked;
}

}  // namespace

std::vector<PublishedTraining> published_trainings(const std::function<void(const std::string&)>& progress) {
  const auto json = parse_json_object<OrderedJson>(training_files().front().text, "bench/ask/trainings.json");
  std::vector<PublishedTraining> trainings;
  const OrderedJsonKeys file(json, "bench/ask/trainings.json");
  for (const OrderedJsonKeys& row : file.objects("trainings")) {
    PublishedTraining training{row.string("training"),
                               row.string("source"),
                               row.number("gpu_hours", 1),
                               row.string("difference"),
                               {}};
    const SizeAsked asked = question_of(row);
    row.refuse_unknown();
    if (progress) progress(training.name);
    training.answer = answer_size(asked);
    trainings.push_back(std::move(training));
  }
  return trainings;
}

}  // namespace plumbline
