// Python's pickles as plain data: a reader that executes nothing, and a writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// object: what a pickle wants made by calling something; it is kept as the call, which nobody does.
/// persistent: a reference out of the pickle, in PyTorch's files to a tensor's bytes.
enum class PickleKind : std::uint8_t {
  none,
  boolean,
  integer,
  real,
  text,
  bytes,
  tuple,
  list,
  dict,
  set,
  global,
  object,
  persistent
};

struct PickleValue {
  PickleKind kind = PickleKind::none;
  std::int64_t integer = 0;  // of a boolean, too
  double real = 0;
  std::string text;  // text and bytes; of a global "module name"
  std::vector<std::uint32_t>
      items;  // of tuple, list, set; of dict and object keys and values in turn; persistent: its id
  std::vector<std::uint32_t> called;  // of an object: what is called, its arguments, then states
};

/// Values refer to each other by their place; they may do so in circles.
struct Pickle {
  std::vector<PickleValue> values;
  std::uint32_t root = 0;

  const PickleValue& operator[](std::uint32_t index) const { return values[index]; }
};

/// Reads what torch.save writes (protocols 2 to 5). Throws InputError naming `origin` and the place: other
/// operations, names outside of the list of those that checkpoints have (tensors, ordered dictionaries, the options
/// of a Megatron run, states of random generators), truncated or oversized input. Time and memory are proportional to
/// the number of bytes.
Pickle read_pickle(std::span<const std::byte> bytes, const std::string& origin);

/// Protocol 2, value by value, as torch.save and its `weights_only` reader know it.
class PickleWriter {
 public:
  PickleWriter();
  void boolean(bool value) { text_ += value ? '\x88' : '\x89'; }
  void integer(std::int64_t value);
  void text(std::string_view value);
  void global(std::string_view module, std::string_view name);
  void integers(const std::vector<std::int64_t>& values);  // a tuple
  // A dictionary: its keys and values stand between; a tuple: likewise; a call: what is called, then a tuple.
  void begin_dict() { text_ += "}("; }
  void end_dict() { text_ += 'u'; }
  void begin_tuple() { text_ += '('; }
  void end_tuple() { text_ += 't'; }
  void call() { text_ += 'R'; }
  void persistent() { text_ += 'Q'; }
  /// The whole pickle.
  std::string finish();

 private:
  std::string text_;
};

}  // namespace plumbline
