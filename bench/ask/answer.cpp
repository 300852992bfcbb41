#include "bench/ask/answer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <new>
#include <span>
#include <utility>
#include <vector>

#include "bench/ask/compare_answer.hpp"
#include "bench/ask/legality.hpp"
#include "bench/ask/predict_answer.hpp"
#include "bench/ask/question.hpp"
#include "bench/ask/schedule_answer.hpp"
#include "bench/ask/search_answer.hpp"
#include "bench/ask/validate_answer.hpp"
#include "bench/record/record.hpp"
#include "bench/record/record_store.hpp"
#include "core/base/embedded_file.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/output_json.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {

/// ask.schema.json, embedded by bench/CMakeLists.txt.
std::span<const EmbeddedFile> ask_files();

namespace {

constexpr int kMaxDepth = 16;
constexpr std::int64_t kMostValues = 20'000;
constexpr std::size_t kLongestId = 200;
constexpr std::size_t kMostChanges = 1000;

OrderedJson predict_reply(const OrderedJsonKeys& request, const AskProgress& /*progress*/) {
  const bool full = request.boolean_or("full", false);
  const AskedConfig asked = asked_config(request);
  request.refuse_unknown();
  return predict_answer(asked, full ? Detail::full : Detail::brief);
}

OrderedJson legality_reply(const OrderedJsonKeys& request, const AskProgress& /*progress*/) {
  const AskedConfig asked = asked_config(request);
  request.refuse_unknown();
  return legality_answer(asked);
}

OrderedJson compare_reply(const OrderedJsonKeys& request, const AskProgress& /*progress*/) {
  const AskedConfig asked = asked_config(request);
  const OrderedJson& changes = request.list("changes", kMostChanges);
  request.refuse_unknown();
  return compare_answer(asked, changes);
}

OrderedJson search_reply(const OrderedJsonKeys& request, const AskProgress& progress) {
  constexpr int kMost = 10'000;
  AskedConfig asked = asked_config(request);
  SearchQuestion question;
  question.top = static_cast<int>(request.integer_or("top", 1, kMost, question.top));
  question.threads = static_cast<int>(request.integer_or("threads", 0, kMost, question.threads));
  question.most_experts = static_cast<int>(request.integer_or("max_ep", 0, kMost, question.most_experts));
  if (request.find("max_cp") != nullptr)
    question.most_context = static_cast<int>(request.integer("max_cp", 1, kMost));
  request.refuse_unknown();
  check_numbers(question);
  std::vector<std::string> notes;
  const RunConfig config = config_of(asked, notes);
  question.source = std::move(asked.source);
  question.keys = std::move(asked.keys);
  const SearchAnswer found = answer_search(question, config, progress);
  OrderedJson json = to_json(found.result, found.context);
  json["notes"] = notes;
  return json;
}

OrderedJson validate_reply(const OrderedJsonKeys& request, const AskProgress& progress) {
  request.refuse_unknown();
  return validate_answer(progress);
}

OrderedJson records_reply(const OrderedJsonKeys& request, const AskProgress& /*progress*/) {
  const std::string folder = request.string("folder");
  request.refuse_unknown();
  OrderedJson records = OrderedJson::array();
  for (const Record& record : load_records(folder)) records.push_back(to_json(record));
  return {{"records", std::move(records)}};
}

OrderedJson schedule_reply(const OrderedJsonKeys& request, const AskProgress& /*progress*/) {
  return schedule_answer(request);
}

OrderedJson simulate_reply(const OrderedJsonKeys& request, const AskProgress& /*progress*/) {
  return simulate_answer(request);
}

struct Kind {
  std::string_view name;
  OrderedJson (*reply)(const OrderedJsonKeys& request, const AskProgress& progress);
};
constexpr Kind kKinds[] = {{"predict", predict_reply},   {"legality", legality_reply},
                           {"compare", compare_reply},   {"search", search_reply},
                           {"validate", validate_reply}, {"schedule", schedule_reply},
                           {"simulate", simulate_reply}, {"records", records_reply}};

OrderedJson reply_to(const OrderedJsonKeys& request, const AskProgress& progress) {
  const std::string asked = request.string_or("ask", "");
  std::vector<std::string_view> names;
  for (const Kind& kind : kKinds) {
    if (kind.name == asked) return kind.reply(request, progress);
    names.push_back(kind.name);
  }
  request.refuse("ask", fmt::format("one of {}", fmt::join(names, ", ")));
}

/// The id that the reply repeats: a short text, a number or nothing.
OrderedJson id_of(const OrderedJsonKeys& request) {
  const OrderedJson* id = request.find("id");
  if (id == nullptr) return nullptr;
  const bool allowed =
      id->is_number() || (id->is_string() && id->get_ref<const std::string&>().size() <= kLongestId);
  if (!allowed) request.refuse("id", fmt::format("a number, or a text of at most {} bytes", kLongestId));
  return *id;
}

std::string error_reply(const OrderedJson& id, const std::string& text, ExitCode code) {
  return output_json(
      OrderedJson{{"schema", kAskSchema}, {"id", id}, {"error", text}, {"exit_code", static_cast<int>(code)}},
      -1);
}

}  // namespace

std::string answer(std::string_view request, const AskProgress& progress) {
  OrderedJson id;
  try {
    const auto json = parse_json_object<OrderedJson>(request, "request", kMaxDepth, kMostValues);
    const OrderedJsonKeys keys(json, "request");
    id = id_of(keys);
    OrderedJson reply = {{"schema", kAskSchema}, {"id", id}};
    reply.update(reply_to(keys, progress));
    return output_json(reply, -1);
  } catch (const Error& error) {
    return error_reply(id, error.what(), error.code());
  } catch (const std::bad_alloc&) {
    return error_reply(id, "request: out of memory; ask for a smaller configuration", ExitCode::rank_failed);
  } catch (const std::exception& error) {
    return error_reply(id, one_line(error.what()), ExitCode::rank_failed);
  }
}

std::string refuse_long_request(std::size_t bytes) {
  return error_reply(
      nullptr, fmt::format("request: found a line of {} bytes, expected at most {}", bytes, kLongestRequest),
      ExitCode::bad_input);
}

std::string_view ask_schema() {
  return ask_files().front().text;
}

}  // namespace plumbline
