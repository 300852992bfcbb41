#include "analysis/diagnose/traces/trace_events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace plumbline {
namespace {

constexpr std::int64_t kLatest = std::int64_t{4'000'000'000'000'000'000};  // sums of two stay in range
constexpr std::size_t kLongestShapes = 300;

std::int64_t clamped(double nanoseconds) {
  if (std::isnan(nanoseconds)) return 0;
  const double most = static_cast<double>(kLatest);
  return static_cast<std::int64_t>(std::clamp(nanoseconds, -most, most));
}

/// A key of an event's arguments and the text it sets.
struct ArgumentText {
  std::string_view key;
  std::string TraceEvent::*member;
};
constexpr ArgumentText kTexts[] = {{"Collective name", &TraceEvent::collective},
                                   {"Process Group Name", &TraceEvent::group},
                                   {"Process Group Description", &TraceEvent::description},
                                   {"Process Group Ranks", &TraceEvent::ranks},
                                   {"dtype", &TraceEvent::dtype},
                                   {"name", &TraceEvent::argument_name}};

struct ArgumentNumber {
  std::string_view key;
  std::int64_t TraceEvent::*member;
};
constexpr ArgumentNumber kNumbers[] = {{"correlation", &TraceEvent::correlation},
                                       {"In msg nelems", &TraceEvent::elements_in},
                                       {"Out msg nelems", &TraceEvent::elements_out},
                                       {"Group size", &TraceEvent::group_size}};

}  // namespace

std::int64_t nanoseconds_of(std::string_view text, double value) {
  const std::size_t dot = text.find('.');
  const bool plain = dot != text.npos && text.find_first_of("eE") == text.npos;
  std::int64_t whole = 0;
  const char* const end = text.data() + (plain ? dot : 0);
  const auto [stopped, error] = std::from_chars(text.data(), end, whole);
  if (!plain || error != std::errc() || stopped != end || std::abs(whole) > kLatest / 1000)
    return clamped(value * 1000);
  std::int64_t fraction = 0;
  for (std::size_t i = 1; i <= 3; ++i) {
    const bool digit = dot + i < text.size();
    fraction = fraction * 10 + (digit ? text[dot + i] - '0' : 0);
  }
  return whole * 1000 + (text.front() == '-' ? -fraction : fraction);
}

void TraceEvent::clear() {
  // Texts keep their memory: an event is written over some million times.
  for (std::string* text : {&phase, &name, &category, &process, &thread, &collective, &group, &description,
                            &ranks, &dtype, &shapes, &argument_name})
    text->clear();
  begin = duration = 0;
  has_begin = has_duration = false;
  correlation = -1;
  elements_in = elements_out = group_size = 0;
}

bool TraceEvents::number(std::int64_t whole, std::int64_t nanoseconds, std::string_view text) {
  if (in_event()) {
    if (key_ == "ts") {
      event_.begin = nanoseconds;
      event_.has_begin = true;
    } else if (key_ == "dur") {
      event_.duration = nanoseconds;
      event_.has_duration = true;
    } else if (key_ == "pid") {
      event_.process = text;
    } else if (key_ == "tid") {
      event_.thread = text;
    }
  } else if (in_arguments()) {
    for (const ArgumentNumber& argument : kNumbers) {
      if (key_ == argument.key) event_.*argument.member = whole;
    }
    if (key_ == "Process Group Name") event_.group = text;
  } else if (in_shapes()) {
    if (event_.shapes.size() < kLongestShapes) {
      if (!event_.shapes.empty() && event_.shapes.back() != '[') event_.shapes += ',';
      event_.shapes += text;
    }
  } else if (part_ == Part::distributed && depth_ == 2) {
    if (key_ == "rank") header_.rank = whole;
    if (key_ == "world_size") header_.world_size = whole;
  } else if (depth_ == 1 && key_ == "baseTimeNanoseconds") {
    header_.base_time = std::clamp(whole, std::int64_t{0}, kLatest);
  }
  return true;
}

bool TraceEvents::number_integer(std::int64_t value) {
  const bool exact = value > -kLatest / 1000 && value < kLatest / 1000;
  return number(value, exact ? value * 1000 : clamped(static_cast<double>(value) * 1000),
                fmt::format_int(value).c_str());
}

bool TraceEvents::number_unsigned(std::uint64_t value) {
  const auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const auto whole = static_cast<std::int64_t>(std::min(value, most));
  const bool exact = whole < kLatest / 1000;
  return number(whole, exact ? whole * 1000 : kLatest, fmt::format_int(value).c_str());
}

bool TraceEvents::number_float(double value, const std::string& text) {
  return number(clamped(value), nanoseconds_of(text, value), text);
}

bool TraceEvents::string(std::string& value) {
  if (in_event()) {
    if (key_ == "name") event_.name = value;
    if (key_ == "ph") event_.phase = value;
    if (key_ == "cat") event_.category = value;
    if (key_ == "pid") event_.process = value;
    if (key_ == "tid") event_.thread = value;
  } else if (in_arguments()) {
    for (const ArgumentText& argument : kTexts) {
      if (key_ == argument.key) event_.*argument.member = value;
    }
  } else if (part_ == Part::distributed && depth_ == 2 && key_ == "backend") {
    header_.own = value == "plumbline";
  } else if (part_ == Part::devices && depth_ == 3 && key_ == "name" && header_.device.empty()) {
    header_.device = value.substr(0, 100);
  }
  return true;
}

bool TraceEvents::start_object(std::size_t /*elements*/) {
  if (in_event()) arguments_ = key_ == "args";
  if (depth_ == 1 && part_ == Part::none && key_ == "distributedInfo") part_ = Part::distributed;
  ++depth_;
  if (in_event()) event_.clear();
  return true;
}

bool TraceEvents::key(std::string& value) {
  key_.swap(value);
  return true;
}

bool TraceEvents::end_object() {
  if (in_event() && (!event_.phase.empty() || !event_.name.empty())) take_(to_, event_);
  --depth_;
  if (in_event()) arguments_ = false;
  if (depth_ <= 1 && part_ != Part::events) part_ = Part::none;
  return true;
}

bool TraceEvents::start_array(std::size_t /*elements*/) {
  if (depth_ == 0) {
    event_depth_ = 2;
    part_ = Part::events;
    header_.has_events = true;
  } else if (depth_ == 1 && event_depth_ == 3 && key_ == "traceEvents") {
    part_ = Part::events;
    header_.has_events = true;
  } else if (depth_ == 1 && event_depth_ == 3 && key_ == "deviceProperties") {
    part_ = Part::devices;
  } else if (in_arguments()) {
    shapes_ = key_ == "Input Dims";
  } else if (in_shapes() && event_.shapes.size() < kLongestShapes) {
    event_.shapes += '[';
  }
  ++depth_;
  return true;
}

bool TraceEvents::end_array() {
  --depth_;
  if (in_shapes() && event_.shapes.size() < kLongestShapes) event_.shapes += ']';
  if (in_arguments()) shapes_ = false;
  if (depth_ == 1 && event_depth_ == 3) part_ = Part::none;
  return true;
}

bool TraceEvents::parse_error(std::size_t position, const std::string& token,
                              const nlohmann::json::exception& /*error*/) {
  error_ = fmt::format("byte {}, near {}", position, token.empty() ? "its end" : token.substr(0, 40));
  return false;
}

}  // namespace plumbline
