#include "bench/ask/compare_answer.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "bench/ask/predict_answer.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

double step_of(const OrderedJson& answer) {
  return answer["prediction"]["time"]["step_s"].get<double>();
}

double peak_of(const OrderedJson& answer) {
  return answer["prediction"]["memory"]["peak_bytes"].get<double>();
}

bool fits(const OrderedJson& answer) {
  return answer["prediction"]["fits"].get<bool>();
}

OrderedJson changed(const AskedConfig& base, const OrderedJson& keys, const std::string& place,
                    const OrderedJson& reference) {
  OrderedJson row = {{"keys", keys}};
  try {
    OrderedJson answer = predict_answer(with_changes(base, overrides_of(keys, place)), Detail::brief);
    for (const char* key : {"prediction", "fit"}) row[key] = std::move(answer[key]);
    row["step_time"] = step_of(row) / step_of(reference) - 1;
    row["peak_memory"] = peak_of(row) / peak_of(reference) - 1;
  } catch (const InputError& error) {
    row["error"] = error.what();
  }
  return row;
}

}  // namespace

OrderedJson compare_answer(const AskedConfig& base, const OrderedJson& changes,
                           const std::function<void(int, int)>& progress) {
  const OrderedJson reference = predict_answer(base, Detail::brief);
  OrderedJson json = {{"base", reference}, {"changes", OrderedJson::array()}, {"fastest", nullptr}};
  double best = fits(reference) ? step_of(reference) : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const std::string place = fmt::format("changes[{}]", i);
    if (!changes[i].is_object())
      throw InputError(fmt::format("{}: expected a JSON object of keys and values", place));
    OrderedJson row = changed(base, changes[i], place, reference);
    if (!row.contains("error") && fits(row) && step_of(row) < best) {
      best = step_of(row);
      json["fastest"] = i;
    }
    json["changes"].push_back(std::move(row));
    if (progress) progress(static_cast<int>(i) + 1, static_cast<int>(changes.size()));
  }
  return json;
}

}  // namespace plumbline
