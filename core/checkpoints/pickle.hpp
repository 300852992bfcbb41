// Python's pickles as plain data: a reader that executes nothing, and a writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// object: a call that a pickle wants executed to make something; it is kept as data and never called.
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
  std::vector<std::uint32_t> called;  // of an object: the callee, its arguments, then states
};

/// Values refer to each other by their place; they may do so in circles.
struct Pickle {
  std::vector<PickleValue> values;
  std::uint32_t root = 0;

  const PickleValue& operator[](std::uint32_t index) const { return values[index]; }
};

/// Reads files of torch.save (protocols 2 to 5). Throws InputError naming `origin` and the place for other
/// operations and for truncated or oversized input. Also for names that checkpoints do not have (allowed:
/// tensors, ordered dictionaries, options of a Megatron run, states of random generators). Time and memory
/// are proportional to the number of bytes.
Pickle read_pickle(std::span<const std::byte> bytes, const std::string& origin);

/// True for "module name" of a name that checkpoints have. Nothing named is ever called.
bool is_allowed_global(std::string_view global);

/// Protocol 2, value by value, as torch.save and its `weights_only` reader know it.
class PickleWriter {
 public:
  PickleWriter();
  void boolean(bool value) { text_ += value ? '\x88' : '\x89'; }
  void integer(std::int64_t value);
  void text(std::string_view value);
  void global(std::string_view module, std::string_view name);
  void integers(const std::vector<std::int64_t>& values);  // a tuple
  // A dictionary: its keys and values stand between; a tuple: likewise; a call: the callee, then a tuple.
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
