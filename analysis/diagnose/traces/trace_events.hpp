// Events of a Chrome trace, one after another, while its JSON is parsed.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumbline {

/// One event as the file has it. Times in nanoseconds; texts are empty and numbers negative where missing.
struct TraceEvent {
  std::string phase, name, category, process, thread;
  std::int64_t begin = 0;
  std::int64_t duration = 0;
  bool has_begin = false, has_duration = false;
  std::int64_t correlation = -1;
  std::int64_t elements_in = 0, elements_out = 0, group_size = 0;
  std::string collective, group, description, ranks, dtype, shapes;
  std::string argument_name;  // args.name, of metadata

  void clear();
};

/// Facts about the whole file.
struct TraceHeader {
  std::int64_t rank = -1;
  std::int64_t world_size = 0;
  std::int64_t base_time = 0;  // nanoseconds that times count from
  std::string device;
  bool has_events = false;
  bool own = false;  // made by plumbline
};

/// Receiver of nlohmann's SAX interface: calls `take` for each event. No value is kept but those above.
class TraceEvents {
 public:
  explicit TraceEvents(void (*take)(void* to, const TraceEvent& event), void* to) : take_(take), to_(to) {}

  const TraceHeader& header() const { return header_; }
  /// Byte and reason of the first error of the text; empty: none.
  const std::string& error() const { return error_; }

  bool null() { return true; }
  bool boolean(bool /*value*/) { return true; }
  bool number_integer(std::int64_t value);
  bool number_unsigned(std::uint64_t value);
  bool number_float(double value, const std::string& text);
  bool string(std::string& value);
  bool binary(nlohmann::json::binary_t& /*value*/) { return true; }
  bool start_object(std::size_t elements);
  bool key(std::string& value);
  bool end_object();
  bool start_array(std::size_t elements);
  bool end_array();
  bool parse_error(std::size_t position, const std::string& token, const nlohmann::json::exception& error);

 private:
  enum class Part : std::uint8_t { none, events, distributed, devices };

  bool number(std::int64_t whole, std::int64_t nanoseconds, std::string_view text);
  bool in_event() const { return part_ == Part::events && depth_ == event_depth_; }
  bool in_arguments() const { return part_ == Part::events && arguments_ && depth_ == event_depth_ + 1; }
  bool in_shapes() const { return part_ == Part::events && shapes_ && depth_ > event_depth_ + 1; }

  void (*take_)(void* to, const TraceEvent& event);
  void* to_;
  TraceEvent event_;
  TraceHeader header_;
  std::string key_;
  std::string error_;
  int depth_ = 0;
  int event_depth_ = 3;  // depth inside an event; 2 where the file is an array of events
  Part part_ = Part::none;
  bool arguments_ = false;
  bool shapes_ = false;
};

/// "123.456" microseconds as nanoseconds, exactly; `value` where the text has an exponent. Saturates.
std::int64_t nanoseconds_of(std::string_view text, double value);

}  // namespace plumbline
