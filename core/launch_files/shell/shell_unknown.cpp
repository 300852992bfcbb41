#include "core/launch_files/shell/shell_unknown.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace plumbline {

std::string UnknownParts::mark(UnknownPart part) {
  parts_.push_back(std::move(part));
  return kBegin + std::to_string(parts_.size() - 1) + kEnd;
}

std::size_t UnknownParts::length(std::string_view text) {
  return std::min(text.find(kEnd), text.size() - 1) + 1;
}

const UnknownPart& UnknownParts::at(std::string_view mark) const {
  std::size_t index = 0;
  std::from_chars(mark.data() + 1, mark.data() + mark.size(), index);
  return parts_.at(index);
}

const UnknownPart* UnknownParts::of(std::string_view text) const {
  const UnknownPart* found = nullptr;
  for (std::size_t begin = text.find(kBegin); begin != std::string_view::npos;
       begin = text.find(kBegin, begin + 1)) {
    const UnknownPart& part = at(text.substr(begin, length(text.substr(begin))));
    if (found == nullptr || found->cause < part.cause) found = &part;
  }
  return found;
}

std::string UnknownParts::shown(std::string_view text) const {
  std::string shown;
  while (!text.empty()) {
    const bool part = text[0] == kBegin;
    const std::size_t size = part ? length(text) : std::min(text.find(kBegin), text.size());
    shown += part ? std::string_view(at(text.substr(0, size)).text) : text.substr(0, size);
    text.remove_prefix(size);
  }
  return shown;
}

std::string UnknownParts::without(std::string_view text) {
  std::string rest;
  while (!text.empty()) {
    const bool part = text[0] == kBegin;
    const std::size_t size = part ? length(text) : std::min(text.find(kBegin), text.size());
    if (!part) rest += text.substr(0, size);
    text.remove_prefix(size);
  }
  return rest;
}

}  // namespace plumbline
