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
#include "bench/ask/size_answer.hpp"
#include "bench/ask/validate_answer.hpp"
#include "bench/ask/written_value.hpp"
#include "bench/record/record.hpp"
#include "bench/record/record_store.hpp"
#include "core/base/embedded_file.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/output_json.hpp"
#include "core/base/text_input.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {

/// ask.schema.json, embedded by bench/CMakeLists.txt.
std::span<const EmbeddedFile> ask_files();

namespace {

constexpr int kMaxDepth = 16;
constexpr std::int64_t kMostValues = 200'000;
constexpr std::size_t kLongestId = 200;
constexpr std::size_t kMostChanges = 1000;

/// The request besides its keys, and its caller.
struct Asked {
  std::string_view text;  // of the whole request
  const AskProgress& progress;
  const AskCancels& cancels;
};

OrderedJson predict_reply(const OrderedJsonKeys& request, const Asked& /*asked*/) {
  const bool full = request.boolean_or("full", false);
  const AskedConfig config = asked_config_with_lengths(request);
  request.refuse_unknown();
  return predict_answer(config, full ? Detail::full : Detail::brief);
}

OrderedJson legality_reply(const OrderedJsonKeys& request, const Asked& /*asked*/) {
  const AskedConfig config = asked_config(request);
  request.refuse_unknown();
  return legality_answer(config);
}

OrderedJson compare_reply(const OrderedJsonKeys& request, const Asked& asked) {
  const AskedConfig config = asked_config_with_lengths(request);
  const OrderedJson& changes = request.list("changes", kMostChanges);
  request.refuse_unknown();
  return compare_answer(config, changes, asked.progress);
}

OrderedJson search_reply(const OrderedJsonKeys& request, const Asked& asked) {
  constexpr int kMost = 10'000;
  constexpr double kShortest = 1e-3;
  constexpr double kLongest = 1e6;
  AskedConfig given = asked_config(request);
  SearchQuestion question;
  question.top = static_cast<int>(request.integer_or("top", 1, kMost, question.top));
  question.threads = static_cast<int>(request.integer_or("threads", 0, kMost, question.threads));
  question.most_experts = static_cast<int>(request.integer_or("max_ep", 0, kMost, question.most_experts));
  if (request.find("max_cp") != nullptr)
    question.most_context = static_cast<int>(request.integer("max_cp", 1, kMost));
  question.deadline_s = request.number_or("deadline_s", kShortest, kLongest, 0);
  request.refuse_unknown();
  check_numbers(question);
  std::vector<std::string> notes;
  const RunConfig config = config_of(given, notes);
  question.source = std::move(given.source);
  question.keys = std::move(given.keys);
  if (const std::string_view id = written_value(asked.text, "id"); !id.empty() && asked.cancels.wanted)
    question.stopped = [&asked, id] { return asked.cancels.wanted(id); };
  const SearchAnswer found = answer_search(question, config, asked.progress);
  OrderedJson json = to_json(found.result, found.context);
  json["notes"] = notes;
  return json;
}

OrderedJson size_reply(const OrderedJsonKeys& request, const Asked& asked) {
  constexpr double kMostDays = 36500;
  constexpr double kLongest = 1e6;
  SizeAsked question;
  question.config = asked_config(request);
  take_choices(question);
  question.tokens = parse_tokens(request.string("tokens"), "tokens");
  if (request.find("days") != nullptr) question.days = request.number("days", 0.01, kMostDays);
  if (const std::string price = request.string_or("price", ""); !price.empty())
    question.prices = parse_prices(price, "price");
  question.job = usual_job(request.string_or("fleet", "llama3-405b"));
  question.threads = static_cast<int>(request.integer_or("threads", 0, 10'000, 0));
  question.fixed = request.boolean_or("fixed", false);
  question.deadline_s = request.number_or("deadline_s", 1e-3, kLongest, 0);
  request.refuse_unknown();
  if (const std::string_view id = written_value(asked.text, "id"); !id.empty() && asked.cancels.wanted)
    question.stopped = [&asked, id] { return asked.cancels.wanted(id); };
  int done = 0;
  const SizeAnswer sized =
      answer_size(question, [&](const std::string&, int, const std::optional<SizedJob>&) {
        if (asked.progress) asked.progress(++done, 0);
      });
  OrderedJson json = size_json(sized);
  json["notes"] = sized.notes;
  return json;
}

OrderedJson validate_reply(const OrderedJsonKeys& request, const Asked& asked) {
  request.refuse_unknown();
  return validate_answer(asked.progress);
}

OrderedJson records_reply(const OrderedJsonKeys& request, const Asked& /*asked*/) {
  const std::string folder = request.string("folder");
  request.refuse_unknown();
  OrderedJson records = OrderedJson::array();
  for (const Record& record : load_records(folder)) records.push_back(to_json(record));
  return {{"records", std::move(records)}};
}

OrderedJson keys_reply(const OrderedJsonKeys& request, const Asked& /*asked*/) {
  request.refuse_unknown();
  OrderedJson keys = OrderedJson::array();
  for (const ConfigKey& key : config_keys()) {
    OrderedJson row = {{"name", key.name}, {"short", nullptr}, {"expected", key.expected}};
    if (!key.alias.empty()) row["short"] = key.alias;
    keys.push_back(std::move(row));
  }
  return {{"keys", std::move(keys)}};
}

OrderedJson schedule_reply(const OrderedJsonKeys& request, const Asked& /*asked*/) {
  return schedule_answer(request);
}

OrderedJson simulate_reply(const OrderedJsonKeys& request, const Asked& /*asked*/) {
  return simulate_answer(request);
}

/// The value of a key that names a request: a short text, or a number.
void check_id(const OrderedJsonKeys& request, const char* key) {
  const OrderedJson* id = request.find(key);
  const bool allowed =
      id != nullptr &&
      (id->is_number() || (id->is_string() && id->get_ref<const std::string&>().size() <= kLongestId));
  if (!allowed) request.refuse(key, fmt::format("a number, or a text of at most {} bytes", kLongestId));
}

OrderedJson cancel_reply(const OrderedJsonKeys& request, const Asked& asked) {
  check_id(request, "cancel");
  request.refuse_unknown();
  return {{"cancelled", asked.cancels.done && asked.cancels.done(written_value(asked.text, "cancel"))}};
}

struct Kind {
  std::string_view name;
  OrderedJson (*reply)(const OrderedJsonKeys& request, const Asked& asked);
};
constexpr Kind kKinds[] = {
    {"predict", predict_reply},   {"legality", legality_reply}, {"compare", compare_reply},
    {"search", search_reply},     {"size", size_reply},         {"validate", validate_reply},
    {"schedule", schedule_reply}, {"simulate", simulate_reply}, {"records", records_reply},
    {"keys", keys_reply},         {"cancel", cancel_reply}};

OrderedJson reply_to(const OrderedJsonKeys& request, const Asked& asked) {
  const std::string name = request.string_or("ask", "");
  std::vector<std::string_view> names;
  for (const Kind& kind : kKinds) {
    if (kind.name == name) return kind.reply(request, asked);
    names.push_back(kind.name);
  }
  request.refuse("ask", fmt::format("one of {}", fmt::join(names, ", ")));
}

/// The reply to the request with this id as written; one without has null.
std::string reply_text(std::string_view id, const OrderedJson& reply) {
  const std::string rest = output_json(reply, -1);  // "{...}"
  return fmt::format("{{\"schema\":{},\"id\":{},{}", kAskSchema, id.empty() ? "null" : escaped_controls(id),
                     std::string_view(rest).substr(1));
}

std::string error_reply(std::string_view id, const std::string& text, ExitCode code) {
  return reply_text(id, {{"error", text}, {"exit_code", static_cast<int>(code)}});
}

OrderedJson parsed(std::string_view request) {
  return parse_json_object<OrderedJson>(request, "request", kMaxDepth, kMostValues);
}

}  // namespace

std::string answer(std::string_view request, const AskProgress& progress, const AskCancels& cancels) {
  std::string_view id;
  try {
    const OrderedJson json = parsed(request);
    const OrderedJsonKeys keys(json, "request");
    if (keys.find("id") != nullptr) {
      check_id(keys, "id");
      id = written_value(request, "id");
    }
    return reply_text(id, reply_to(keys, {request, progress, cancels}));
  } catch (const Error& error) {
    return error_reply(id, error.what(), error.code());
  } catch (const std::bad_alloc&) {
    return error_reply(id, "request: out of memory; ask for a smaller configuration", ExitCode::rank_failed);
  } catch (const std::exception& error) {
    return error_reply(id, one_line(error.what()), ExitCode::rank_failed);
  }
}

std::string cancelled_id(std::string_view request) {
  if (request.find("\"cancel\"") == std::string_view::npos) return "";
  try {
    const OrderedJson json = parsed(request);
    const OrderedJsonKeys keys(json, "request");
    if (keys.string_or("ask", "") != "cancel") return "";
    check_id(keys, "cancel");
    return std::string(written_value(request, "cancel"));
  } catch (const InputError&) {
    return "";  // answered as such in its turn
  }
}

std::string refuse_long_request(std::size_t bytes) {
  return error_reply(
      "", fmt::format("request: found a line of {} bytes, expected at most {}", bytes, kLongestRequest),
      ExitCode::bad_input);
}

std::string_view ask_schema() {
  return ask_files().front().text;
}

}  // namespace plumbline
