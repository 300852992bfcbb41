// Reading host lists.
#include "bench/processes/hosts/host_list.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

[[noreturn]] void refuse_list(const std::string& origin, std::string_view found,
                              const std::string& expected) {
  throw InputError(fmt::format("{}: found \"{}\", expected {}", origin, printable(found), expected));
}

/// A whole number without a sign; nothing when `text` holds anything else.
std::optional<int> whole_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || text.front() == '-' || error != std::errc{} || end != text.data() + text.size())
    return std::nullopt;
  return number;
}

/// True for a name of a host that command lines of mpirun, ssh and srun take as one word.
bool is_host_name(std::string_view name) {
  const auto good = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_'; };
  return !name.empty() && name.size() <= 255 && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), good);
}

/// Splits at commas that are in no bracket.
std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at == text.size() || (text[at] == ',' && depth == 0)) {
      parts.push_back(text.substr(begin, at - begin));
      begin = at + 1;
    } else if (text[at] == '[') {
      ++depth;
    } else if (text[at] == ']') {
      --depth;
    }
  }
  return parts;
}

/// "1-3,07" → 1, 2, 3, 07.
std::vector<std::string> expand_ranges(std::string_view text, const std::string& origin) {
  const std::string expected = "numbers and ranges in brackets, such as [1-3,7]";
  std::vector<std::string> numbers;
  for (const std::string_view part : split_at_commas(text)) {
    const std::size_t dash = part.find('-');
    const std::string_view first_text = part.substr(0, dash);
    const std::string_view last_text = dash == std::string_view::npos ? part : part.substr(dash + 1);
    const auto first = whole_number(first_text);
    const auto last = whole_number(last_text);
    if (!first || !last || *last < *first || *last - *first >= kMostHosts)
      refuse_list(origin, text, expected);
    const std::size_t width = first_text.size();
    for (int number = *first; number <= *last; ++number)
      numbers.push_back(fmt::format("{:0{}}", number, width));
    if (numbers.size() > static_cast<std::size_t>(kMostHosts)) refuse_list(origin, text, "fewer hosts");
  }
  return numbers;
}

/// One entry, "rack[0-1]n[1-2]", appended to `hosts`.
void expand_entry(std::string_view entry, const std::string& origin, std::vector<std::string>& hosts) {
  std::vector<std::string> made = {""};
  while (!entry.empty()) {
    const std::size_t open = entry.find('[');
    for (std::string& name : made) name += entry.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = entry.find(']', open);
    if (close == std::string_view::npos) refuse_list(origin, entry, "a ']' for every '['");
    const std::vector<std::string> numbers = expand_ranges(entry.substr(open + 1, close - open - 1), origin);
    if (made.size() * numbers.size() > static_cast<std::size_t>(kMostHosts)) {
      refuse_list(origin, entry, fmt::format("at most {} hosts", kMostHosts));
    }
    std::vector<std::string> longer;
    longer.reserve(made.size() * numbers.size());
    for (const std::string& name : made) {
      for (const std::string& number : numbers) longer.push_back(name + number);
    }
    made = std::move(longer);
    entry.remove_prefix(close + 1);
  }
  for (std::string& name : made) {
    if (!is_host_name(name)) refuse_list(origin, name, "the name of a host");
    hosts.push_back(std::move(name));
  }
  if (hosts.size() > static_cast<std::size_t>(kMostHosts)) {
    refuse_list(origin, entry, fmt::format("at most {} hosts", kMostHosts));
  }
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  constexpr std::string_view kBlanks = " \t\r";
  for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

int slots_from(std::string_view text, const std::string& origin) {
  const auto slots = whole_number(text);
  if (!slots || *slots < 1 || *slots > kMostSlots) {
    refuse_list(origin, text, fmt::format("slots from 1 to {}", kMostSlots));
  }
  return *slots;
}

}  // namespace

std::vector<std::string> expand_node_list(std::string_view text, const std::string& origin) {
  std::vector<std::string> hosts;
  for (const std::string_view entry : split_at_commas(text)) expand_entry(entry, origin, hosts);
  return hosts;
}

std::vector<int> expand_counts(std::string_view text, const std::string& origin) {
  const std::string expected = "tasks per host, such as 2(x3),1";
  std::vector<int> counts;
  for (std::string_view part : split_at_commas(text)) {
    int times = 1;
    if (const std::size_t open = part.find("(x"); open != std::string_view::npos) {
      const auto number =
          part.back() == ')' ? whole_number(part.substr(open + 2, part.size() - open - 3)) : std::nullopt;
      if (!number || *number < 1 || *number > kMostHosts) refuse_list(origin, text, expected);
      times = *number;
      part = part.substr(0, open);
    }
    const auto count = whole_number(part);
    if (!count || *count < 1 || *count > kMostSlots) refuse_list(origin, text, expected);
    counts.insert(counts.end(), static_cast<std::size_t>(times), *count);
    if (counts.size() > static_cast<std::size_t>(kMostHosts)) refuse_list(origin, text, "fewer hosts");
  }
  return counts;
}

std::vector<Host> hosts_of_slurm(const std::string& nodes, const std::string& nodes_origin,
                                 const std::string& counts, const std::string& counts_origin) {
  const std::vector<std::string> names = expand_node_list(nodes, nodes_origin);
  const std::vector<int> slots = expand_counts(counts, counts_origin);
  if (names.size() != slots.size()) {
    throw InputError(fmt::format(
        "{} names {} hosts ({}), but {} has tasks of {} ({}); expected one number per host", nodes_origin,
        names.size(), printable(nodes), counts_origin, slots.size(), printable(counts)));
  }
  std::vector<Host> hosts;
  hosts.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) hosts.push_back({names[i], slots[i]});
  return hosts;
}

std::vector<Host> parse_hostfile(std::string_view text, const std::string& origin) {
  std::vector<Host> hosts;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::string place = fmt::format("{}:{}", origin, ++number);
    line = line.substr(0, line.find('#'));
    const std::vector<std::string_view> words = words_of(line);
    if (words.empty()) continue;
    const std::size_t colon = words.front().find(':');
    Host host{std::string(words.front().substr(0, colon)), 1};
    if (!is_host_name(host.name)) refuse_list(place, words.front(), "the name of a host");
    if (colon != std::string_view::npos) host.slots = slots_from(words.front().substr(colon + 1), place);
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string_view word = words[i];
      if (word.starts_with("slots=")) {
        host.slots = slots_from(word.substr(6), place);
      } else if (!word.starts_with("max_slots=") && !word.starts_with("max-slots=")) {
        refuse_list(place, word, "NAME, NAME:N or NAME slots=N");
      }
    }
    const auto known =
        std::find_if(hosts.begin(), hosts.end(), [&](const Host& each) { return each.name == host.name; });
    if (known == hosts.end()) {
      hosts.push_back(std::move(host));
    } else {
      known->slots = std::min(known->slots + host.slots, kMostSlots);
    }
    if (hosts.size() > 4096) refuse_list(place, line, "at most 4096 hosts in a file");
  }
  if (hosts.empty())
    throw InputError(fmt::format("{}: names no host; expected a line such as \"node1 slots=2\"", origin));
  return hosts;
}

std::string host_option(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", host.name, host.slots);
  return text;
}

std::string this_host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

bool is_this_host(const std::string& name) {
  const std::string own = this_host();
  const auto shortened = [](const std::string& text) { return text.substr(0, text.find('.')); };
  return name == "localhost" || name == own || shortened(name) == shortened(own);
}

void require_first(const std::vector<Host>& hosts) {
  if (hosts.empty() || is_this_host(hosts.front().name)) return;
  throw InputError(
      fmt::format("hosts: found {} first on host {}, expected this host first, as rank 0 writes the results; "
                  "start plumbline on the first host, or name this one first",
                  hosts.front().name, this_host()));
}

int slots_of(const std::vector<Host>& hosts) {
  int slots = 0;
  for (const Host& host : hosts) slots = std::min(slots + host.slots, kMostHosts * 1024);
  return slots;
}

std::vector<Host> hosts_for(const std::vector<Host>& hosts, int ranks) {
  std::vector<Host> taken;
  int missing = ranks;
  for (const Host& host : hosts) {
    if (missing == 0) break;
    taken.push_back({host.name, std::min(host.slots, missing)});
    missing -= taken.back().slots;
  }
  if (missing > 0) {
    throw InputError(fmt::format(
        "hosts: found {0} ranks and {1} slots ({2}), expected a slot per rank; name more hosts or more slots",
        ranks, ranks - missing, printable(host_option(hosts), 200)));
  }
  return taken;
}

}  // namespace plumbline
