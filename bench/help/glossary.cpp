#include "bench/help/glossary.hpp"

#include <algorithm>
#include <cctype>

#include "bench/help/glossary_text.hpp"
#include "bench/help/wrap.hpp"

namespace plumbline {
namespace {

std::vector<Term> parse(std::string_view markdown) {
  std::vector<Term> terms;
  std::string section;
  while (!markdown.empty()) {
    const std::size_t end = std::min(markdown.find('\n'), markdown.size());
    const std::string_view line = markdown.substr(0, end);
    markdown.remove_prefix(std::min(end + 1, markdown.size()));
    const std::size_t close = line.find("**: ");
    if (line.starts_with("## ")) {
      section = line.substr(3);
    } else if (line.starts_with("- **") && close != std::string_view::npos) {
      terms.push_back({section, std::string(line.substr(4, close - 4)), std::string(line.substr(close + 4))});
    } else if (line.starts_with("  ") && !terms.empty()) {
      terms.back().meaning += line.substr(1);  // goes on: one of the two blanks parts the words
    }
  }
  for (Term& term : terms) std::erase(term.meaning, '`');
  return terms;
}

/// Lower case, words parted by one blank.
std::string plain(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    result += c == '-' || c == '_' ? ' ' : static_cast<char>(std::tolower(byte));
  }
  return result;
}

bool abbreviates(const Term& term, const std::string& words) {
  return plain(term.meaning).find("abbreviated " + words + ".") != std::string::npos;
}

}  // namespace

const std::vector<Term>& glossary() {
  static const std::vector<Term> kTerms = parse(glossary_markdown());
  return kTerms;
}

std::vector<Term> find_terms(std::string_view words) {
  const std::string wanted = plain(words);
  std::vector<Term> similar;
  for (const Term& term : glossary()) {
    if (plain(term.name) == wanted || abbreviates(term, wanted)) return {term};
    if (plain(term.name).find(wanted) != std::string::npos) similar.push_back(term);
  }
  return similar;
}

std::string to_text(const std::vector<Term>& terms, const TextStyle& style) {
  std::string text;
  std::string section;
  for (const Term& term : terms) {
    if (term.section != section) {
      section = term.section;
      text += (text.empty() ? "" : "\n") + emphasized(section, style) + "\n";
    }
    text += "  " + emphasized(term.name, style) + "\n" + wrapped(term.meaning, style.width, 6);
  }
  return text;
}

}  // namespace plumbline
