// The operations of pickles, after Python's pickletools.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/checkpoints/pickle.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostValues = std::size_t{1} << 22;
constexpr std::size_t kMostPickleBytes = std::size_t{256} << 20;
constexpr int kNewestProtocol = 5;

class PickleReader {
 public:
  PickleReader(std::span<const std::byte> bytes, const std::string& origin)
      : bytes_(bytes), origin_(printable(origin, 400)) {}

  Pickle read() {
    if (bytes_.size() > kMostPickleBytes)
      fail(fmt::format("{} bytes, expected at most {}", bytes_.size(), kMostPickleBytes));
    while (!done_) step();
    return std::move(pickle_);
  }

 private:
  using Index = std::uint32_t;
  static constexpr Index kMark = ~Index{0};

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}: pickle, byte {}: {}", origin_, begin_, what));
  }

  std::span<const std::byte> take(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail("ends in the middle of a value");
    const std::span<const std::byte> taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }
  std::uint64_t unsigned_of(std::size_t count) {
    std::uint64_t value = 0;
    const std::span<const std::byte> taken = take(count);
    for (std::size_t i = 0; i < count; ++i) value |= std::to_integer<std::uint64_t>(taken[i]) << (8 * i);
    return value;
  }
  std::string text_of(std::uint64_t count) {
    const std::span<const std::byte> taken = take(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  std::string line() {
    const auto* const begin = bytes_.data() + at_;
    const auto* const end = std::find(begin, bytes_.data() + bytes_.size(), std::byte{'\n'});
    if (end == bytes_.data() + bytes_.size()) fail("ends in the middle of a name");
    std::string text = text_of(static_cast<std::uint64_t>(end - begin));
    ++at_;
    return text;
  }

  PickleValue& push(PickleKind kind) {
    if (pickle_.values.size() == kMostValues) fail(fmt::format("more than {} values", kMostValues));
    stack_.push_back(static_cast<Index>(pickle_.values.size()));
    PickleValue& value = pickle_.values.emplace_back();
    value.kind = kind;
    return value;
  }
  void push_integer(std::int64_t value) { push(PickleKind::integer).integer = value; }
  void push_text(PickleKind kind, std::string text) { push(kind).text = std::move(text); }

  Index pop() {
    if (stack_.empty() || stack_.back() == kMark) fail("takes a value where there is none");
    const Index top = stack_.back();
    stack_.pop_back();
    return top;
  }
  /// Values pushed since the last mark.
  std::vector<Index> pop_to_mark() {
    const auto mark = std::find(stack_.rbegin(), stack_.rend(), kMark);
    if (mark == stack_.rend()) fail("goes back to a mark that is not there");
    std::vector<Index> items(mark.base(), stack_.end());
    stack_.erase(mark.base() - 1, stack_.end());
    return items;
  }
  PickleValue& top() {
    if (stack_.empty() || stack_.back() == kMark) fail("changes a value where there is none");
    return pickle_.values[stack_.back()];
  }

  void push_tuple(std::size_t count) {
    std::vector<Index> items(count);
    for (std::size_t i = count; i > 0; --i) items[i - 1] = pop();
    push(PickleKind::tuple).items = std::move(items);
  }
  void append(PickleKind to, const std::vector<Index>& items) {
    PickleValue& container = top();
    if (container.kind != to && container.kind != PickleKind::object) fail("adds to what is no container");
    container.items.insert(container.items.end(), items.begin(), items.end());
  }
  void set_items(const std::vector<Index>& items) {
    if (items.size() % 2 != 0) fail("a dictionary with a key without value");
    append(PickleKind::dict, items);
  }

  void push_global(const std::string& module, const std::string& name) {
    const std::string global = module + " " + name;
    if (!is_allowed_global(global)) {
      fail(fmt::format(
          "names {}.{}, which no checkpoint needs; expected tensors in dictionaries, nothing was executed",
          printable(module), printable(name)));
    }
    push_text(PickleKind::global, global);
  }
  void stack_global() {
    const PickleValue& name = pickle_.values[pop()];
    const PickleValue& module = pickle_.values[pop()];
    if (name.kind != PickleKind::text || module.kind != PickleKind::text) fail("a name that is no text");
    push_global(std::string(module.text), std::string(name.text));
  }
  void call() {
    const Index arguments = pop();
    const Index callable = pop();
    if (pickle_.values[callable].kind != PickleKind::global) fail("calls what is no name");
    push(PickleKind::object).called = {callable, arguments};
  }
  void build() {
    const Index state = pop();
    PickleValue& object = top();
    if (object.kind != PickleKind::object) fail("sets the state of what is no object");
    object.called.push_back(state);
  }
  void memoize(std::uint64_t slot) {
    top();
    if (memo_.size() == kMostValues) fail(fmt::format("more than {} values", kMostValues));
    memo_[slot] = stack_.back();
  }
  void recall(std::uint64_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end()) fail(fmt::format("refers to value {}, which it does not have", slot));
    if (stack_.size() == kMostValues) fail(fmt::format("more than {} values", kMostValues));
    stack_.push_back(found->second);
  }
  void long_integer() {
    const std::uint64_t size = unsigned_of(1);
    if (size > sizeof(std::int64_t)) {  // seeds of random generators
      take(size);
      push(PickleKind::integer).integer = -1;
      return;
    }
    std::uint64_t value = unsigned_of(size);
    if (size > 0 && size < 8 && (value >> (8 * size - 1)) != 0) value |= ~std::uint64_t{0} << (8 * size);
    push_integer(static_cast<std::int64_t>(value));
  }
  void real() {
    std::uint64_t bits = 0;
    for (const std::byte each : take(8)) bits = bits << 8 | std::to_integer<std::uint64_t>(each);
    push(PickleKind::real).real = std::bit_cast<double>(bits);
  }
  void stop() {
    pickle_.root = pop();
    if (!stack_.empty()) fail("ends with values left over");
    done_ = true;
  }

  void step() {
    begin_ = at_;
    const auto operation = static_cast<char>(unsigned_of(1));
    if (!structure(operation) && !scalar(operation)) {
      fail(fmt::format("operation 0x{:02x}, which torch.save does not write",
                       static_cast<unsigned char>(operation)));
    }
  }

  // clang-format off
  bool scalar(char operation) {
    switch (operation) {
      case 'N': push(PickleKind::none); return true;
      case '\x88': push(PickleKind::boolean).integer = 1; return true;
      case '\x89': push(PickleKind::boolean); return true;
      case 'K': push_integer(static_cast<std::int64_t>(unsigned_of(1))); return true;
      case 'M': push_integer(static_cast<std::int64_t>(unsigned_of(2))); return true;
      case 'J': push_integer(static_cast<std::int32_t>(unsigned_of(4))); return true;
      case '\x8a': long_integer(); return true;
      case 'G': real(); return true;
      case 'X': push_text(PickleKind::text, text_of(unsigned_of(4))); return true;
      case '\x8c': push_text(PickleKind::text, text_of(unsigned_of(1))); return true;
      case 'T': push_text(PickleKind::text, text_of(unsigned_of(4))); return true;
      case 'U': push_text(PickleKind::text, text_of(unsigned_of(1))); return true;
      case 'B': push_text(PickleKind::bytes, text_of(unsigned_of(4))); return true;
      case 'C': push_text(PickleKind::bytes, text_of(unsigned_of(1))); return true;
      case '\x8e': push_text(PickleKind::bytes, text_of(unsigned_of(8))); return true;
      default: return false;
    }
  }

  bool structure(char operation) {
    switch (operation) {
      case '\x80': protocol(); return true;
      case '\x95': take(8); return true;
      case '.': stop(); return true;
      case '(': stack_.push_back(kMark); return true;
      case ')': push(PickleKind::tuple); return true;
      case ']': push(PickleKind::list); return true;
      case '}': push(PickleKind::dict); return true;
      case '\x8f': push(PickleKind::set); return true;
      case '\x85': push_tuple(1); return true;
      case '\x86': push_tuple(2); return true;
      case '\x87': push_tuple(3); return true;
      case 't': mark_to_tuple(); return true;
      case 'a': append_one(); return true;
      case 'e': append(PickleKind::list, pop_to_mark()); return true;
      case '\x90': append(PickleKind::set, pop_to_mark()); return true;
      case 's': set_one(); return true;
      case 'u': set_items(pop_to_mark()); return true;
      case 'q': memoize(unsigned_of(1)); return true;
      case 'r': memoize(unsigned_of(4)); return true;
      case '\x94': memoize(memo_.size()); return true;
      case 'h': recall(unsigned_of(1)); return true;
      case 'j': recall(unsigned_of(4)); return true;
      case 'c': read_global(); return true;
      case '\x93': stack_global(); return true;
      case 'R': case '\x81': call(); return true;
      case 'b': build(); return true;
      case 'Q': refer(); return true;
      default: return false;
    }
  }
  // clang-format on

  void protocol() {
    const std::uint64_t version = unsigned_of(1);
    if (version > kNewestProtocol)
      fail(fmt::format("protocol {}, expected at most {}", version, kNewestProtocol));
  }
  void mark_to_tuple() {
    std::vector<Index> items = pop_to_mark();
    push(PickleKind::tuple).items = std::move(items);
  }
  void append_one() {
    const Index item = pop();
    append(PickleKind::list, {item});
  }
  void set_one() {
    const Index value = pop();
    const Index key = pop();
    set_items({key, value});
  }
  void read_global() {
    const std::string module = line();
    const std::string name = line();
    push_global(module, name);
  }
  void refer() {
    const Index id = pop();
    push(PickleKind::persistent).items = {id};
  }

  std::span<const std::byte> bytes_;
  std::string origin_;
  std::size_t at_ = 0;
  std::size_t begin_ = 0;  // of the current operation
  bool done_ = false;
  std::vector<Index> stack_;
  std::unordered_map<std::uint64_t, Index> memo_;
  Pickle pickle_;
};

}  // namespace

Pickle read_pickle(std::span<const std::byte> bytes, const std::string& origin) {
  return PickleReader(bytes, origin).read();
}

}  // namespace plumbline
